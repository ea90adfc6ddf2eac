// SPDX-License-Identifier: Apache-2.0
// What rings work on, by the number that goes through them. A number carries its slot's generation,
// so that a completion that comes twice, or long after its slot was given up, finds nothing. One
// owner (the store worker).
#pragma once
#include <cstdint>
#include <vector>

namespace kvsidecar {

template <typename T>
class InFlightTable {
 public:
  uint64_t add(const T& value) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t at = free_.back();
    free_.pop_back();
    slots_[at].used = true;
    slots_[at].value = value;
    return uint64_t{slots_[at].generation} << 32 | at;
  }
  // Null: nothing of that number is in flight.
  T* find(uint64_t number) {
    const auto at = static_cast<uint32_t>(number);
    if (at >= slots_.size() || !slots_[at].used || slots_[at].generation != number >> 32)
      return nullptr;
    return &slots_[at].value;
  }
  void remove(uint64_t number) { free(static_cast<uint32_t>(number)); }
  // Calls f with each and forgets them all.
  template <typename F>
  void take_all(F f) {
    for (uint32_t at = 0; at < slots_.size(); ++at)
      if (slots_[at].used) {
        f(slots_[at].value);
        free(at);
      }
  }

 private:
  struct Slot {
    uint32_t generation = 1;
    bool used = false;
    T value{};
  };
  void free(uint32_t at) {
    slots_[at].used = false;
    ++slots_[at].generation;
    free_.push_back(at);
  }
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace kvsidecar
