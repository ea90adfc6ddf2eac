// SPDX-License-Identifier: Apache-2.0
// A server with made-up time, files in memory and one iov, all in the test's thread.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/usrbio/core/hand_ring.h"
#include "tests/usrbio/core/server.h"

namespace kvsidecar::fake3fs {

class SetClock final : public Clock {
 public:
  uint64_t now_ns() override { return now; }
  uint64_t wall_ms() override { return now / 1'000'000; }
  uint64_t now = 1'000'000;
};

inline Id id_of(uint8_t number) {
  Id id{};
  id.fill(number);
  return id;
}

class Scene : public ::testing::Test, public FileTable {
 protected:
  static constexpr uint64_t kChunk = 16;
  static constexpr uint64_t kFile = 77;
  static constexpr size_t kBufferBytes = 4096;

  Scene() : server(clock, *this, faults, counts) {
    EXPECT_EQ(server.add_buffer(id_of(1), memory, 0, nullptr), 0);
    add_file(kFile);
  }

  std::shared_ptr<DataFile> find(uint64_t inode) override {
    const auto found = files.find(inode);
    return found == files.end() ? nullptr : found->second;
  }

  DataFile& add_file(uint64_t inode) {
    auto memfd = make_plain_memfd();
    files[inode] = std::make_shared<DataFile>(storage_of_fd(std::move(memfd)), ChunkMap(kChunk), 0,
                                              faults.space());
    return *files[inode];
  }

  void store(uint64_t offset, const std::string& text, uint64_t inode = kFile) {
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    ASSERT_EQ(files[inode]->write(offset, {from, text.size()}, true),
              static_cast<int64_t>(text.size()));
  }

  struct ClientRing {
    std::vector<uint64_t> memory;  // aligned
    std::unique_ptr<HandRing> hand;
    Id id = {};
    HandRing* operator->() { return hand.get(); }
  };

  ClientRing make_ring(uint8_t number, uint32_t entries, const RingOptions& options) {
    ClientRing ring;
    ring.memory.resize(ring_file_bytes(entries) / 8);
    const auto bytes = std::as_writable_bytes(std::span(ring.memory));
    ring.id = id_of(number);
    ring.hand = std::make_unique<HandRing>(bytes, entries);
    EXPECT_EQ(server.add_ring(ring.id, bytes, options, nullptr), 0);
    return ring;
  }

  static HandRing::Request request(uint64_t user, uint64_t file_offset, uint64_t bytes,
                                   uint64_t buffer_offset = 0) {
    return {.buffer = id_of(1),
            .buffer_offset = buffer_offset,
            .inode = kFile,
            .file_offset = file_offset,
            .bytes = bytes,
            .user = user};
  }

  void run() {
    while (server.step()) {
    }
  }
  void submit(Priority priority = Priority::kNormal) { server.submitted(priority); }

  std::string buffer_text(size_t offset, size_t bytes) const {
    return {reinterpret_cast<const char*>(memory.data()) + offset, bytes};
  }
  void fill_buffer(char letter) { memory.assign(kBufferBytes, static_cast<std::byte>(letter)); }

  // "user:result" of all completions that are there, in their order.
  static std::string taken(ClientRing& ring) {
    std::string text;
    for (const auto& done : ring->take())
      text +=
          (text.empty() ? "" : " ") + std::to_string(done.user) + ":" + std::to_string(done.result);
    return text;
  }

  static UniqueFd make_plain_memfd();

  SetClock clock;
  Faults faults;
  Counts counts;
  std::map<uint64_t, std::shared_ptr<DataFile>> files;
  std::vector<std::byte> memory = std::vector<std::byte>(kBufferBytes);
  Server server;
};

}  // namespace kvsidecar::fake3fs
