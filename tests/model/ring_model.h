// SPDX-License-Identifier: Apache-2.0
// Two threads over one ring of two cells, running ipc/ring_position.h: one side writes, the other
// reads and sleeps when it finds nothing. A ring's bytes are variables that Relacy watches: reading
// a cell that isn't published, or filling one that is still read, is a data race; a wake-up that
// gets lost is a deadlock, because sleeps aren't capped here.
#pragma once
#include "ipc/ring_position.h"
#include "tests/model/relacy.h"

namespace kvsidecar::model {

// What a test may change. The defaults are what runs in production.
struct Plan {
  static constexpr uint64_t kRecords = 3;        // more than cells: the ring wraps
  static constexpr uint64_t kRecordsAtOnce = 1;  // published together
  static constexpr unsigned kSteps = 0;  // the writer dies after 0 to kSteps - 1 steps; 0: never
  static constexpr Orders kPublished = Orders::kAsAsked;
  static constexpr Orders kConsumed = Orders::kAsAsked;
  static constexpr Orders kFlag = Orders::kAsAsked;
  static constexpr bool kLooksAgain = true;
  static constexpr bool kReadsBellFirst = true;
};

inline constexpr uint64_t kCells = 2;

template <typename P>
struct Ring {
  Life life;
  Word<uint64_t, P::kPublished> published{life};
  Word<uint64_t, P::kConsumed> consumed{life};
  Word<uint32_t, P::kFlag> sleeps{life};
  Word<uint32_t> bell{life};  // futex word, or the counter of an eventfd
  Word<uint32_t> dead{life};  // the pidfd
  rl::var<uint64_t> cells[kCells];

  void write_cell(const WriterPosition& position) {
    cells[position.next() % kCells]($) = position.next() + 1;
  }
  void take_cell(ReaderPosition& position) {
    RL_ASSERT(cells[position.next() % kCells]($) == position.next() + 1);
    position.taken();
    position.free_taken(consumed);
  }
};

// Either ring, as its ends use it: Sides says how the writer publishes and the reader sleeps.
template <typename P, template <typename> class Sides, rl::test_result_e kExpected>
struct RingModel : rl::test_suite<RingModel<P, Sides, kExpected>, 2, kExpected> {
  Ring<P> ring;
  ReaderPosition reader;

  void before() {
    if (P::kSteps > 0) ring.life.set(0, rl::rand(P::kSteps));
  }

  void thread(unsigned index) {
    if (index == 1) return read();
    try {
      write();
    } catch (const Died&) {
    }
    if (P::kSteps > 0) {
      ring.life.set(~0u, 0);
      ring.dead.store_by_kernel(1);
      Sides<P>::tell_of_death(ring);
    }
  }

  void write() {
    WriterPosition position;
    while (position.next() < P::kRecords) {
      const uint64_t freed = position.freed(ring.consumed);
      if (position.has_room(freed, kCells)) {
        ring.write_cell(position);
        position.filled();
        if (position.next() - position.published() < P::kRecordsAtOnce) continue;
      } else if (position.next() == position.published()) {
        rl::yield(1, $);
        continue;
      }
      Sides<P>::publish(ring, position);
    }
    Sides<P>::publish(ring, position);
  }

  void read() {
    while (reader.next() < P::kRecords) {
      const bool writer_gone = P::kSteps > 0 && ring.dead.load(std::memory_order_seq_cst) != 0;
      const uint64_t published = Sides<P>::look(ring, reader);
      RL_ASSERT(reader.possible(published, kCells));
      if (published != reader.next())
        ring.take_cell(reader);
      else if (writer_gone)
        return;
      else
        Sides<P>::sleep(ring, reader);
    }
  }

  // The reader has taken all that was published, and nothing else.
  void after() {
    RL_ASSERT(reader.next() == ring.published.last());
    RL_ASSERT(P::kSteps > 0 || reader.next() == P::kRecords);
  }
};

}  // namespace kvsidecar::model
