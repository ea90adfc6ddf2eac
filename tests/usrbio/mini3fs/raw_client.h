// SPDX-License-Identifier: Apache-2.0
// A client of the protocol by plain system calls and a ring driven by hand: what the tests of
// mini3fs speak, apart from any client library. One thread.
#pragma once
#include <semaphore.h>

#include <memory>
#include <string>

#include "ipc/os.h"
#include "tests/usrbio/core/hand_ring.h"

namespace kvsidecar::fake3fs {

// A file directly under /dev/shm, removed with this.
class ShmFile {
 public:
  explicit ShmFile(uint64_t bytes);
  ~ShmFile();
  const std::string& path() const { return path_; }
  std::span<std::byte> bytes() const { return {memory_.data(), memory_.size()}; }

 private:
  std::string path_;
  MappedMemory memory_;
};

struct RawRing {
  ShmFile shm;
  HandRing hand;
  std::string key;
  RawRing(uint32_t entries, std::string name)
      : shm(ring_file_bytes(entries)), hand(shm.bytes(), entries), key(std::move(name)) {}
  HandRing* operator->() { return &hand; }
};

Id random_id();
std::string uuid_text(const Id& id);
uint64_t inode_of(int fd);

class RawClient {
 public:
  explicit RawClient(std::string mount) : iovs_(std::move(mount) + "/3fs-virt/iovs/") {}

  // 0 or -errno of the symlink.
  int link(const std::string& target, const std::string& key) const;
  int unlink(const std::string& key) const;
  int register_iov(const Id& id, const ShmFile& shm) const {
    return link(shm.path(), uuid_text(id));
  }
  // what: ".r0.t0" and the like. Null: refused.
  std::unique_ptr<RawRing> make_ring(uint32_t entries, const std::string& what) const;
  bool submit(const std::string& link_name = "submit-ios") const;
  const std::string& iovs() const { return iovs_; }

 private:
  const std::string iovs_;
};

}  // namespace kvsidecar::fake3fs
