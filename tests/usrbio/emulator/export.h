// SPDX-License-Identifier: Apache-2.0
// How the functions of the library are defined: seen by dlsym, and free to throw where the real
// ones do.
#pragma once
#include "tests/usrbio/abi/hf3fs_abi.h"
#include "tests/usrbio/emulator/state.h"

#define KVS_EXPORT extern "C" __attribute__((visibility("default")))

namespace kvsidecar::emulator {

// What the library allocates for an iov or ring of its making.
struct IovHandle {
  std::string mount, key, shm_name;  // shm_name empty: somebody else's
  std::byte* base = nullptr;
  size_t bytes = 0;
};

constexpr size_t kMountBytesMax = 255;

fake3fs::Id id_of(const uint8_t* bytes);
void put_text(char (&into)[256], const std::string& text);

}  // namespace kvsidecar::emulator
