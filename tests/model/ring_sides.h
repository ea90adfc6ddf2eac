// SPDX-License-Identifier: Apache-2.0
// How the writer of each ring publishes and wakes, and how its reader sleeps, as the client
// library and the daemon do it.
#pragma once
#include "tests/model/ring_model.h"

namespace kvsidecar::model {

// Requests: the client kicks an eventfd when the daemon sleeps.
template <typename P>
struct Submission {
  static void publish(Ring<P>& ring, WriterPosition& position) {
    if (publish_and_look(position, ring.published, ring.sleeps) == 0) return;
    ring.bell.fetch_add(1, std::memory_order_seq_cst);
    ring.bell.wake();
  }
  static uint64_t look(const Ring<P>& ring, const ReaderPosition& position) {
    return position.look(ring.published);
  }
  static void sleep(Ring<P>& ring, const ReaderPosition& position) {
    raise_sleep_flag(ring.sleeps, 1);
    if (!P::kLooksAgain || position.look_again(ring.published) == position.next()) {
      ring.bell.sleep_while(0, false);
      ring.bell.fetch_and(0, std::memory_order_seq_cst);
    }
    lower_sleep_flag(ring.sleeps, 1);
  }
  static void tell_of_death(Ring<P>& ring) {
    ring.bell.store_by_kernel(1);
    ring.bell.wake_by_kernel();
  }
};

// Answers: the client sleeps on the doorbell, a futex; the daemon wakes it when its flag is up.
template <typename P>
struct Completion {
  static void publish(Ring<P>& ring, WriterPosition& position) {
    if (publish_ring_and_look(position, ring.published, ring.bell, ring.sleeps) != 0)
      ring.bell.wake();
  }
  static uint64_t look(const Ring<P>& ring, const ReaderPosition& position) {
    return position.look_again(ring.published);
  }
  static void sleep(Ring<P>& ring, const ReaderPosition& position) {
    uint32_t seen = 0;
    if (P::kReadsBellFirst) seen = ring.bell.load(std::memory_order_seq_cst);
    raise_sleep_flag(ring.sleeps, 1);
    if (!P::kLooksAgain || position.look_again(ring.published) == position.next()) {
      if (!P::kReadsBellFirst) seen = ring.bell.load(std::memory_order_seq_cst);
      // Who learns of the daemon's death can't move the doorbell: this sleep must be capped.
      ring.bell.sleep_while(seen, P::kSteps > 0);
    }
    lower_sleep_flag(ring.sleeps, 1);
  }
  static void tell_of_death(Ring<P>& ring) { ring.bell.wake_by_kernel(); }
};

}  // namespace kvsidecar::model
