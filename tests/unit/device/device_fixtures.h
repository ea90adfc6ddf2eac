// SPDX-License-Identifier: Apache-2.0
// What the device tests share: a clock that stands still, faults on demand, an engine's memory with
// the test's own view of it, and a page of claim words.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ipc/claim.h"
#include "sidecar/device/device.h"
#include "sidecar/env.h"

namespace kvsidecar {

class FakeClock final : public Clock {
 public:
  uint64_t now_ns() override { return now_ns_.load(); }
  uint64_t wall_ms() override { return now_ns_.load() / 1'000'000; }
  void set(uint64_t now_ns) { now_ns_.store(now_ns); }

 private:
  std::atomic<uint64_t> now_ns_{1000};
};

// Fails the nth call (from 1) of one point.
class NthFault final : public FaultPoints {
 public:
  NthFault(std::string point, int nth, int error)
      : point_(std::move(point)), nth_(nth), error_(error) {}
  int fail(std::string_view point) override {
    return point == point_ && ++calls_ == nth_ ? error_ : 0;
  }

 private:
  const std::string point_;
  const int nth_, error_;
  int calls_ = 0;
};

inline std::byte pattern_byte(uint64_t seed, uint64_t i) {
  return static_cast<std::byte>((i * 131 + (i >> 8) * 17 + (i >> 16) * 5 + seed * 29 + 7) & 0xff);
}
inline void fill_pattern(std::byte* bytes, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; ++i) bytes[i] = pattern_byte(seed, i);
}
inline bool is_pattern(const std::byte* bytes, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; ++i)
    if (bytes[i] != pattern_byte(seed, i)) return false;
  return true;
}
inline bool all_equal(const std::byte* bytes, uint64_t count, std::byte value) {
  for (uint64_t i = 0; i < count; ++i)
    if (bytes[i] != value) return false;
  return true;
}

// An engine's allocation: a memfd, not sealed unless asked, and the engine's own mapping.
struct EngineMemory {
  explicit EngineMemory(uint64_t bytes, bool sealed = false) {
    Result<UniqueFd> made =
        sealed ? make_sealed_memfd("engine", bytes) : make_memfd("engine", bytes);
    KV_CHECK(made.ok());
    fd = made.take();
    Result<MappedMemory> mapped = MappedMemory::map(fd.get(), 0, bytes, Access::kReadWrite);
    KV_CHECK(mapped.ok());
    memory = mapped.take();
  }
  MemoryHandle handle(uint64_t offset, uint64_t bytes) const {
    return {MemoryKind::kHostFd, UniqueFd(::dup(fd.get())), bytes, offset};
  }
  MemoryHandle handle() const { return handle(0, memory.size()); }
  std::byte* data() const { return memory.data(); }

  UniqueFd fd;
  MappedMemory memory;
};

class ClaimPage {
 public:
  static constexpr uint64_t kSequence = 7;
  explicit ClaimPage(size_t count) : words_(count) {
    for (size_t i = 0; i < count; ++i)
      words_[i].store(claim_value(kSequence, static_cast<uint16_t>(i), ClaimState::kQueued));
  }
  Claim claim(size_t i) { return Claim(&words_[i], kSequence, static_cast<uint16_t>(i)); }
  ClaimState state(size_t i) { return claim(i).state(); }
  ClaimWord& word(size_t i) { return words_[i]; }

 private:
  std::vector<ClaimWord> words_;
};

}  // namespace kvsidecar
