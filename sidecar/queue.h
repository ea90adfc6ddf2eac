// SPDX-License-Identifier: Apache-2.0
// Queue<T>: a bounded single-producer single-consumer queue between two threads of the daemon. A
// full queue says so; it never blocks, spins or grows. T is moved in and out. Capacity is rounded
// up to a power of two. Peer positions are cached, so the peer's line is touched only when the
// cache says full or empty.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace kvsidecar {

template <typename T>
class Queue {
 public:
  explicit Queue(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? size_t{2} : capacity) - 1), cells_(new T[mask_ + 1]) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  size_t capacity() const { return mask_ + 1; }

  // Producer. False when full; `value` is then untouched.
  bool try_push(T&& value) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ > mask_) return false;
    }
    cells_[tail & mask_] = std::move(value);
    tail_.store(tail + 1, std::memory_order_seq_cst);  // seq_cst: pairs with Waker's flag
    return true;
  }
  bool try_push(const T& value) {
    T copy = value;
    return try_push(std::move(copy));
  }
  // Producer. At least this many pushes will succeed.
  size_t room() {
    head_seen_ = head_.load(std::memory_order_acquire);
    return mask_ + 1 - static_cast<size_t>(tail_.load(std::memory_order_relaxed) - head_seen_);
  }

  // Consumer. False when empty.
  bool try_pop(T& out) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_seq_cst);
      if (head == tail_seen_) return false;
    }
    out = std::move(cells_[head & mask_]);
    cells_[head & mask_] = T{};
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  // Consumer's view; a hint for anybody else.
  bool empty() const {
    return head_.load(std::memory_order_seq_cst) == tail_.load(std::memory_order_seq_cst);
  }
  size_t size() const {
    const uint64_t head = head_.load(std::memory_order_acquire);
    return static_cast<size_t>(tail_.load(std::memory_order_acquire) - head);
  }

 private:
  const size_t mask_;
  const std::unique_ptr<T[]> cells_;
  alignas(128) std::atomic<uint64_t> tail_{0};
  uint64_t head_seen_ = 0;  // producer's
  alignas(128) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;  // consumer's
};

}  // namespace kvsidecar
