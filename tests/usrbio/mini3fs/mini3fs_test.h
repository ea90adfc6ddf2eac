// SPDX-License-Identifier: Apache-2.0
// A mounted mini3fs with chunks of 64 KiB for each test; skipped where FUSE can't be used.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tests/usrbio/mini3fs/fixture.h"
#include "tests/usrbio/mini3fs/raw_client.h"

namespace kvsidecar::fake3fs {

class Mini3fsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kChunk = 64 << 10;

  void SetUp() override {
    const std::string missing = Mini3fs::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    auto started = Mini3fs::start({.chunk_bytes = kChunk, .workers = 2, .more = {}});
    ASSERT_TRUE(started.ok()) << started.status().text();
    fs = started.take();
    client = std::make_unique<RawClient>(fs->mount());
  }

  std::string path(const std::string& name) const { return fs->mount() + "/" + name; }
  UniqueFd open(const std::string& name, int flags = O_RDWR | O_CREAT) const {
    return UniqueFd(::open(path(name).c_str(), flags | O_CLOEXEC, 0666));
  }
  void set(const std::string& name, const std::string& value) {
    const Status done = fs->set(name, value);
    ASSERT_TRUE(done.ok()) << done.text();
  }
  off_t length(int fd) const {
    struct stat facts {};
    return ::fstat(fd, &facts) == 0 ? facts.st_size : -errno;
  }

  // An iov and a ring for each direction.
  struct Io {
    ShmFile shm{4 << 20};
    Id id = random_id();
    std::unique_ptr<RawRing> reads, writes;
  };
  std::unique_ptr<Io> make_io(const std::string& depth = "0") {
    auto io = std::make_unique<Io>();
    EXPECT_EQ(client->register_iov(io->id, io->shm), 0);
    io->reads = client->make_ring(16, ".r" + depth + ".t0");
    io->writes = client->make_ring(16, ".w" + depth + ".t0");
    EXPECT_TRUE(io->reads != nullptr && io->writes != nullptr);
    return io;
  }
  static HandRing::Request request(const Io& io, int fd, uint64_t offset, uint64_t bytes,
                                   uint64_t buffer_offset = 0) {
    return {.buffer = io.id,
            .buffer_offset = buffer_offset,
            .inode = inode_of(fd),
            .file_offset = offset,
            .bytes = bytes,
            .user = 1};
  }
  // The result of one I/O; the memory is at buffer_offset.
  int64_t one(RawRing& ring, const HandRing::Request& wanted) {
    EXPECT_GE(ring->prepare(wanted), 0);
    EXPECT_TRUE(client->submit());
    const auto done = ring->wait(1);
    return done.size() == 1 ? done[0].result : INT64_MIN;
  }
  int64_t read(Io& io, int fd, uint64_t offset, uint64_t bytes) {
    return one(*io.reads, request(io, fd, offset, bytes));
  }
  int64_t write(Io& io, int fd, uint64_t offset, uint64_t bytes, char letter = 'w') {
    for (std::byte& byte : io.shm.bytes().first(bytes)) byte = static_cast<std::byte>(letter);
    return one(*io.writes, request(io, fd, offset, bytes));
  }

  std::unique_ptr<Mini3fs> fs;
  std::unique_ptr<RawClient> client;
};

}  // namespace kvsidecar::fake3fs
