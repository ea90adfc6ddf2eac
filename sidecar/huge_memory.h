// SPDX-License-Identifier: Apache-2.0
// Private memory in pages of 2 MiB where the kernel has them to give: what is looked up at random
// in it then costs no walk through page tables. Zeros, taken as it is touched. One owner.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvsidecar {

class HugeMemory {
 public:
  static constexpr uint64_t kPageBytes = 2ull << 20;

  // A multiple of kPageBytes; throws std::bad_alloc.
  explicit HugeMemory(uint64_t bytes);
  ~HugeMemory();
  HugeMemory(HugeMemory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  HugeMemory& operator=(HugeMemory&&) = delete;
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace kvsidecar
