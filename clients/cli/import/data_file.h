// SPDX-License-Identifier: Apache-2.0
// One rank's data file of one pool: records of one size, end to end. Blocks on the file. One
// thread.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>

#include "ipc/os.h"

namespace kvsidecar {

struct DataName {
  uint32_t rank = 0;
  std::string pool, path;
};
// PATH that ends in ".RANK.bin" (pool kv) or ".RANK.bin.POOL", or "RANK:POOL=PATH".
Result<DataName> parse_data_name(const std::string& text);

class DataFile {
 public:
  // kInvalid with the path and the reason.
  static Result<DataFile> open(const DataName& name);
  const DataName& name() const { return name_; }
  uint64_t bytes() const { return static_cast<uint64_t>(facts_.st_size); }
  bool same_file(const DataFile& other) const {
    return facts_.st_dev == other.facts_.st_dev && facts_.st_ino == other.facts_.st_ino;
  }
  bool newer_than(const timespec& time) const;
  // Somebody has written to it, or cut it, since it was opened.
  bool changed() const;
  // All of `out`; false: it couldn't be read.
  bool read(uint64_t offset, std::span<std::byte> out) const;

 private:
  DataFile(DataName name, UniqueFd fd, const struct stat& facts)
      : name_(std::move(name)), fd_(std::move(fd)), facts_(facts) {}
  DataName name_;
  UniqueFd fd_;
  struct stat facts_;
};

// A file's time and size, to see whether it has changed.
Result<struct stat> facts_of(const std::string& what, const std::string& path);
bool same_facts(const struct stat& a, const struct stat& b);

}  // namespace kvsidecar
