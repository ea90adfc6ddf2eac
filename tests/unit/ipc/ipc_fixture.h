// SPDX-License-Identifier: Apache-2.0
// What several ipc tests need: a small session in memory, and bytes in and out of text.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "ipc/handshake_io.h"

namespace kvsidecar {

inline constexpr Geometry kSmallGeometry{8, 2, 8, 16, 64, 8};
inline constexpr uint64_t kPatienceNs = 30'000'000'000;  // a deadline for events that must come

// One session's memory, made as the daemon makes it; both ends run in the test.
struct SmallSession {
  SessionShare share;
  SessionMemory memory;
  explicit SmallSession(const Geometry& geometry = kSmallGeometry) {
    auto made = make_session_share(geometry, 7, 9);
    KV_CHECK(made.ok());
    share = made.take();
    memory = share.memory();
  }
};

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
  }
  return text;
}

inline std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// True when the fd turned readable (or hung up) before the patience ended.
inline bool wait_for(int fd) {
  pollfd state{fd, POLLIN, 0};
  return ::poll(&state, 1, static_cast<int>(kPatienceNs / 1'000'000)) == 1;
}

// A refusal names what is wrong.
inline void expect_refused(const Status& status, Code code, const std::string& word) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_NE(status.text().find(word), std::string::npos)
      << "'" << word << "' isn't in: " << status.text();
}

}  // namespace kvsidecar
