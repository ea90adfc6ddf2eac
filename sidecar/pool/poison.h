// SPDX-License-Identifier: Apache-2.0
// Free slot bytes are poisoned in builds with the address sanitizer, so that a copy into or out of
// a slot that is nobody's is found where it happens. Elsewhere these do nothing. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVSIDECAR_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(KVSIDECAR_POISON)
#define KVSIDECAR_POISON 1
#endif
#if defined(KVSIDECAR_POISON)
#include <sanitizer/asan_interface.h>
#endif

namespace kvsidecar {

inline void poison([[maybe_unused]] const void* at, [[maybe_unused]] uint64_t bytes) {
#if defined(KVSIDECAR_POISON)
  __asan_poison_memory_region(at, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* at, [[maybe_unused]] uint64_t bytes) {
#if defined(KVSIDECAR_POISON)
  __asan_unpoison_memory_region(at, bytes);
#endif
}

}  // namespace kvsidecar
