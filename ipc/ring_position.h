// SPDX-License-Identifier: Apache-2.0
// How the two sides of a ring count cells and wake each other: the protocol of ring.h without its
// bytes. Templates over the shared words, so that tests/model checks the very code that runs; in
// production a word is a std::atomic.
//
// The writer fills cells, then publishes its position; the reader copies cells out, then frees
// them by publishing its own. Each counts in private and never reads back what it published. Who
// wants to sleep raises its flag and then looks once more; who publishes looks at the flag
// afterwards. All four steps are seq_cst, so one of the two always sees the other.
#pragma once
#include <atomic>
#include <cstdint>

namespace kvsidecar {

class WriterPosition {
 public:
  uint64_t next() const { return next_; }  // of the cell to be filled
  uint64_t published() const { return published_; }
  // How far the reader has freed: read once per use, the peer may move it at any time.
  template <typename Word>
  static uint64_t freed(const Word& consumed) {
    return consumed.load(std::memory_order_acquire);
  }
  bool has_room(uint64_t freed, uint64_t cells) const {
    return freed <= next_ && next_ - freed < cells;
  }
  // Whether a reader that keeps to the rules can have freed that much.
  bool possible(uint64_t freed, uint64_t cells) const {
    return freed <= published_ && published_ - freed <= cells;
  }
  uint64_t in_use(uint64_t freed) const { return next_ - freed; }
  void filled() { ++next_; }
  // False when there is nothing new.
  template <typename Word>
  bool publish(Word& published) {
    if (next_ == published_) return false;
    published_ = next_;
    published.store(next_, std::memory_order_seq_cst);
    return true;
  }

 private:
  uint64_t next_ = 0, published_ = 0;
};

class ReaderPosition {
 public:
  uint64_t next() const { return next_; }  // of the cell to be read
  template <typename Word>
  static uint64_t look(const Word& published) {
    return published.load(std::memory_order_acquire);
  }
  // The look after the flag was raised.
  template <typename Word>
  static uint64_t look_again(const Word& published) {
    return published.load(std::memory_order_seq_cst);
  }
  bool possible(uint64_t published, uint64_t cells) const {
    return published >= next_ && published - next_ <= cells;
  }
  void taken() { ++next_; }
  // What was taken must have been copied out before.
  template <typename Word>
  void free_taken(Word& consumed) const {
    consumed.store(next_, std::memory_order_release);
  }

 private:
  uint64_t next_ = 0;
};

template <typename Flag>
void raise_sleep_flag(Flag& flag, uint32_t bits) {
  flag.fetch_or(bits, std::memory_order_seq_cst);
}

template <typename Flag>
void lower_sleep_flag(Flag& flag, uint32_t bits) {
  flag.fetch_and(~bits, std::memory_order_seq_cst);
}

// Publishes; returns the flag of the side that reads, or 0 when there was nothing new.
template <typename Word, typename Flag>
uint32_t publish_and_look(WriterPosition& position, Word& published, const Flag& flag) {
  if (!position.publish(published)) return 0;
  return flag.load(std::memory_order_seq_cst);
}

// The same where the reader sleeps on a futex: the doorbell is its word, moved between the two.
template <typename Word, typename Bell, typename Flag>
uint32_t publish_ring_and_look(WriterPosition& position, Word& published, Bell& doorbell,
                               const Flag& flag) {
  if (!position.publish(published)) return 0;
  doorbell.fetch_add(1, std::memory_order_seq_cst);
  return flag.load(std::memory_order_seq_cst);
}

}  // namespace kvsidecar
