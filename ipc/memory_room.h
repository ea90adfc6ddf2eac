// SPDX-License-Identifier: Apache-2.0
// How much memory there is behind a file system that lives in memory, by what the kernel says. Any
// thread; reads a few small files.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

struct MemorySources {  // where the kernel says it
  std::string proc = "/proc", sys = "/sys";
};

struct MemoryRoom {
  uint64_t bytes = UINT64_MAX;  // nothing is known to limit it
  std::string source;           // what does, in words
  std::string remedy;           // what gives more
  void lower_to(const MemoryRoom& other) {
    if (other.bytes < bytes) *this = other;
  }
};

// Of ordinary pages, the tightest of: what the machine has available, less a sixteenth (at most 4
// GiB) for everybody else, and what the memory cgroup of this process and each one above it
// (version 2) has left of its memory.max, caches that would give way not counted as used.
MemoryRoom ordinary_room(const MemorySources& sources);
// Of huge pages of that size: those that are free and not promised to anybody.
MemoryRoom huge_page_room(const MemorySources& sources, uint64_t page_bytes);

}  // namespace kvsidecar
