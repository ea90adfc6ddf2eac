// SPDX-License-Identifier: Apache-2.0
// The fixture: a folder of the test's own on the mount, shared memory, and what must be as before
// when a test ends.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "ipc/os.h"
#include "tests/usrbio/clients/subject.h"

namespace kvsidecar::usrbio {

// A named file under /dev/shm, mapped.
class SharedBytes {
 public:
  explicit SharedBytes(size_t bytes);
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  ~SharedBytes();
  const std::string& path() const { return path_; }
  std::span<std::byte> all() const { return {memory_.data(), memory_.size()}; }

 private:
  std::string path_;
  MappedMemory memory_;
};

std::vector<std::byte> pattern(size_t bytes, uint64_t seed);
// Names of rings' and memories' files, open descriptors, and what the server has.
std::map<std::string, int64_t> belongings();

// What it takes to move bytes: made and destroyed together.
struct Tools {
  std::unique_ptr<Client> client;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Ring> reads, writes;

  // The first error, or OK. entries: of each ring.
  Status make(const std::string& path, const SharedBytes& shared, RingOptions options = {});
};

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  UniqueFd open(const std::string& name, int flags = O_RDWR | O_CREAT) const;
  // A file of which only these chunks were ever written.
  UniqueFd file_of_chunks(const std::string& name, const std::vector<uint64_t>& chunks) const;
  void make_tools() { ASSERT_EQ(tools_.make(folder_, shared_).text(), ""); }
  std::unique_ptr<File> registered(int fd);

  // So many completions, however long they take (20 s at most).
  static std::vector<Completion> wait(Ring& ring, size_t count);
  // One request, waited for: its result.
  int64_t transfer(Ring& ring, const File& file, uint64_t offset, size_t bytes,
                   size_t memory_offset = 0);
  std::span<std::byte> bytes(size_t offset, size_t count) const {
    return shared_.all().subspan(offset, count);
  }
  uint64_t chunk() const { return subject().chunk_bytes(); }

  std::string folder_;
  SharedBytes shared_{1 << 20};
  Tools tools_;
};

// Returns when it holds, false after 20 s.
bool eventually(const std::function<bool()>& holds);

}  // namespace kvsidecar::usrbio
