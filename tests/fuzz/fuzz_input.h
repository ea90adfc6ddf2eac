// SPDX-License-Identifier: Apache-2.0
// A fuzzer's bytes taken apart, and the shout when a property doesn't hold. What is used up reads
// as zero, so that every prefix of an input is an input.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar::fuzz {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t bytes)
      : left_(reinterpret_cast<const std::byte*>(data), bytes) {}
  bool empty() const { return left_.empty(); }
  template <typename T>
  T take() {
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::span<const std::byte> take_bytes(size_t bytes) {
    const auto taken = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take_bytes(left_.size()); }

 private:
  std::span<const std::byte> left_;
};

inline void require(bool holds, const char* property, const std::string& seen = "") {
  if (holds) return;
  std::fprintf(stderr, "property doesn't hold: %s %s\n", property, seen.c_str());
  std::abort();
}

// What every refusal owes its reader: it names a field and what would be right.
inline void require_sentence(const Status& status) {
  require(status.text().size() >= 10, "an error is a sentence:", status.text());
  require(status.text().find_first_of(" :") != std::string::npos,
          "an error is a sentence:", status.text());
}

// A copy whose end is the end of its memory, aligned as the daemon's private copies are.
class ExactCopy {
 public:
  explicit ExactCopy(std::span<const std::byte> bytes)
      : memory_(static_cast<std::byte*>(std::malloc(bytes.size() + 1))), bytes_(bytes.size()) {
    require(reinterpret_cast<uintptr_t>(memory_) % 16 == 0, "malloc aligns to 16");
    // One byte more, so that an empty copy has memory; it may not be touched.
    if (!bytes.empty()) std::memcpy(memory_, bytes.data(), bytes.size());
  }
  ~ExactCopy() { std::free(memory_); }
  ExactCopy(const ExactCopy&) = delete;
  ExactCopy& operator=(const ExactCopy&) = delete;
  std::span<const std::byte> bytes() const { return {memory_, bytes_}; }

 private:
  std::byte* memory_;
  size_t bytes_;
};

}  // namespace kvsidecar::fuzz
