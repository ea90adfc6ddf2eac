// SPDX-License-Identifier: Apache-2.0
// The files that rings may address, by inode number, over plain files. A plain file has no chunks:
// which are stored is where it has data, looked up again whenever somebody else has changed it.
#pragma once
#include <sys/stat.h>

#include "tests/usrbio/core/data_file.h"
#include "tests/usrbio/core/faults.h"

namespace kvsidecar::emulator {

class OpenFile;

class OpenFiles final : public fake3fs::FileTable {
 public:
  OpenFiles(uint64_t chunk_bytes, fake3fs::Faults& faults)
      : chunk_bytes_(chunk_bytes), faults_(faults) {}

  // That file can be found for as long as one of these lives. Null: it can't be opened again.
  std::shared_ptr<OpenFile> open(int fd, uint64_t inode);
  // What was opened before can't be found any more: the daemon that knew it is gone.
  void forget_all();
  std::shared_ptr<fake3fs::DataFile> find(uint64_t inode) override;

 private:
  const uint64_t chunk_bytes_;
  fake3fs::Faults& faults_;
  std::mutex lock_;
  std::map<uint64_t, std::weak_ptr<OpenFile>> files_;
};

class OpenFile {
 public:
  OpenFile(UniqueFd fd, uint64_t chunk_bytes, fake3fs::Faults& faults);
  // False: the file system below it is gone; one that came since may use its inode number again.
  bool is_there() const;
  // As it is now; null: a folder.
  std::shared_ptr<fake3fs::DataFile> data();

 private:
  class Watched;  // the file's bytes, and how the file looked after the last change from here
  struct Look;

  const std::shared_ptr<const UniqueFd> fd_;
  const uint64_t chunk_bytes_;
  fake3fs::Faults& faults_;
  std::mutex lock_;
  std::shared_ptr<Look> look_;
  std::shared_ptr<fake3fs::DataFile> data_;
};

}  // namespace kvsidecar::emulator
