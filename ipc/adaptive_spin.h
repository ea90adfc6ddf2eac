// SPDX-License-Identifier: Apache-2.0
// Whether a thread that waits looks on for a while before it sleeps. It stops doing so when that
// led to nothing a few times in a row, so that it doesn't take a core from whom it waits for, and
// begins again after many waits so short that looking on would have caught their end. Stopping is
// quick and beginning slow: where both sides share a core, waits are short only while nobody looks
// on. Pure; one owner.
#pragma once
#include <cstdint>

namespace kvsidecar {

class AdaptiveSpin {
 public:
  static constexpr uint32_t kFruitlessMax = 4;  // in a row
  static constexpr uint32_t kShortMin = 32;     // in a row

  explicit AdaptiveSpin(uint64_t spin_ns) : spin_ns_(spin_ns) {}
  bool pays() const { return pays_; }
  // How long a wait was, whichever way it was spent.
  void waited(uint64_t ns) {
    const bool is_short = ns < kShort * spin_ns_;
    in_a_row_ = is_short == pays_ ? 0 : in_a_row_ + 1;
    if (in_a_row_ < (pays_ ? kFruitlessMax : kShortMin)) return;
    pays_ = !pays_;
    in_a_row_ = 0;
  }

 private:
  static constexpr uint64_t kShort = 2;  // of spin_ns: waking up takes up to as long again

  uint64_t spin_ns_;
  bool pays_ = true;
  uint32_t in_a_row_ = 0;  // waits that spoke against pays_
};

}  // namespace kvsidecar
