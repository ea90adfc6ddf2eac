// SPDX-License-Identifier: Apache-2.0
#include "sidecar/huge_memory.h"

#include <sys/mman.h>

#include <new>

#include "ipc/result.h"

namespace kvsidecar {

HugeMemory::HugeMemory(uint64_t bytes) : bytes_(bytes) {
  KV_CHECK(bytes != 0 && bytes % kPageBytes == 0);
  // One page more than is needed always holds an aligned piece; the rest goes back.
  const uint64_t all = bytes + kPageBytes;
  void* const mapped =
      ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const uint64_t behind = reinterpret_cast<uintptr_t>(begin) % kPageBytes;
  const uint64_t before = behind == 0 ? 0 : kPageBytes - behind;
  data_ = begin + before;
  if (before != 0) (void)::munmap(begin, before);
  if (before != kPageBytes) (void)::munmap(data_ + bytes, kPageBytes - before);
  (void)::madvise(data_, bytes, MADV_HUGEPAGE);  // refused: small pages do as well
}

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) (void)::munmap(data_, bytes_);
}

}  // namespace kvsidecar
