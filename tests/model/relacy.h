// SPDX-License-Identifier: Apache-2.0
// Relacy, without the macros that it lays over the language, and the shared words of a model: a
// word with the interface of std::atomic, for the templates of ipc/ring_position.h. Include last.
#pragma once
#include <atomic>

#include <relacy/relacy.hpp>

#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

namespace kvsidecar::model {

// What a thread that dies throws, at any of its steps; no cleaning up follows, like after SIGKILL.
struct Died {};

// The steps that a mortal thread still has; each use of a shared word is one.
class Life {
 public:
  void set(unsigned thread, unsigned steps) {
    thread_ = thread;
    steps_ = steps;
  }
  void step() {
    if (rl::thread_index() != thread_) return;
    if (steps_ == 0) throw Died{};
    --steps_;
  }

 private:
  unsigned thread_ = ~0u, steps_ = 0;
};

// The orders that a word really gets; a test of the model takes some away.
enum class Orders : unsigned char { kAsAsked, kRelaxed, kNoSeqCst };

template <typename T, Orders kOrders = Orders::kAsAsked>
class Word {
 public:
  explicit Word(Life& life) : life_(life) { word_.store(0, rl::mo_relaxed, RL_INFO); }
  T load(std::memory_order order) const {
    life_.step();
    return word_.load(given(order, rl::mo_acquire), RL_INFO);
  }
  void store(T value, std::memory_order order) {
    life_.step();
    word_.store(value, given(order, rl::mo_release), RL_INFO);
  }
  T fetch_add(T value, std::memory_order order) {
    life_.step();
    return word_.fetch_add(value, given(order, rl::mo_acq_rel), RL_INFO);
  }
  T fetch_or(T value, std::memory_order order) {
    life_.step();
    return word_.fetch_or(value, given(order, rl::mo_acq_rel), RL_INFO);
  }
  T fetch_and(T value, std::memory_order order) {
    life_.step();
    return word_.fetch_and(value, given(order, rl::mo_acq_rel), RL_INFO);
  }
  T last() const { return word_.debug_value(); }  // outside of the threads

  // A futex on the word: the look and the falling asleep are one step, as in the kernel.
  // `capped`: the sleep may end by itself.
  void sleep_while(T expected, bool capped) {
    life_.step();
    rl::context& context = rl::ctx();
    context.sched();
    context.atomic_thread_fence_seq_cst();
    T seen;
    {
      rl::preemption_disabler one_step(context);
      seen = word_.load(rl::mo_acquire, RL_INFO);
    }
    if (seen == expected) word_.wait(context, capped, false, RL_INFO);
  }
  void wake() {
    life_.step();
    wake_by_kernel();
  }
  void wake_by_kernel() {
    rl::context& context = rl::ctx();
    context.sched();
    context.atomic_thread_fence_seq_cst();
    word_.wake(context, 1, RL_INFO);
  }
  void store_by_kernel(T value) { word_.store(value, rl::mo_seq_cst, RL_INFO); }

 private:
  static rl::memory_order given(std::memory_order order, rl::memory_order strongest_but_seq_cst) {
    if (kOrders == Orders::kRelaxed) return rl::mo_relaxed;
    switch (order) {
      case std::memory_order::relaxed:
        return rl::mo_relaxed;
      case std::memory_order::acquire:
        return rl::mo_acquire;
      case std::memory_order::release:
        return rl::mo_release;
      case std::memory_order::acq_rel:
        return rl::mo_acq_rel;
      default:
        return kOrders == Orders::kNoSeqCst ? strongest_but_seq_cst : rl::mo_seq_cst;
    }
  }

  Life& life_;
  mutable rl::atomic<T> word_;
};

}  // namespace kvsidecar::model
