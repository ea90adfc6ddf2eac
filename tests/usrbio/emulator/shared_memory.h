// SPDX-License-Identifier: Apache-2.0
// Files under /dev/shm as the real library makes them: reserved by ftruncate only, so that a small
// /dev/shm shows as SIGBUS later.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/usrbio/core/ring_layout.h"

namespace kvsidecar::emulator {

fake3fs::Id random_id();
std::string text_of(const fake3fs::Id& id);  // a uuid's: lower case with hyphens

struct Mapping {
  std::byte* base = nullptr;
  size_t bytes = 0;
};

// "hf3fs-iov-<uuid>" as the real library's, with the emulator's mark and this process' id in the
// uuid: so what a killed test left can be told from anybody else's.
std::string shm_name();
// Takes away what emulators of processes that are gone have left.
void sweep_shared();

// Makes /dev/shm/<name> and maps it. 0 or -EIO; a failing mmap leaves the file, as upstream.
int make_shared(const std::string& name, size_t bytes, Mapping& mapping);
// Maps bytes of the file at that path. 0 or -errno.
int map_shared(const std::string& path, size_t bytes, Mapping& mapping);
void unmap(Mapping& mapping);

}  // namespace kvsidecar::emulator
