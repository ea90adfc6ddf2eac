// SPDX-License-Identifier: Apache-2.0
// Whether a thread that waits looks on for a while before it sleeps. It stops doing so when that
// led to nothing a few times in a row, so that it doesn't take a core from whom it waits for, and
// begins again when a wait was so short that looking on would have caught its end. Pure; one owner.
#pragma once
#include <cstdint>

namespace kvsidecar {

class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(uint64_t spin_ns) : spin_ns_(spin_ns) {}
  bool pays() const { return fruitless_ < kFruitlessMax; }
  // How long a wait was, whichever way it was spent.
  void waited(uint64_t ns) {
    if (ns < kShort * spin_ns_)
      fruitless_ = 0;
    else if (fruitless_ < kFruitlessMax)
      ++fruitless_;
  }

 private:
  static constexpr uint32_t kFruitlessMax = 4;
  static constexpr uint64_t kShort = 2;  // of spin_ns: waking up takes up to as long again

  uint64_t spin_ns_;
  uint32_t fruitless_ = 0;  // waits in a row that a spin would not have ended
};

}  // namespace kvsidecar
