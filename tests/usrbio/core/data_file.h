// SPDX-License-Identifier: Apache-2.0
// One file of the fake file system: its bytes (Storage), its chunks and its length. Any thread (own
// lock for chunks and length; bytes move outside of it).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "ipc/os.h"
#include "tests/usrbio/core/chunk_map.h"
#include "tests/usrbio/core/space.h"

namespace kvsidecar::fake3fs {

class Storage {
 public:
  virtual ~Storage() = default;
  // All calls: 0 or bytes, or -errno. Beyond what is stored: zeros up to the length, then short.
  virtual int64_t read(uint64_t offset, std::span<std::byte> into) = 0;
  virtual int64_t write(uint64_t offset, std::span<const std::byte> from) = 0;
  virtual int truncate(uint64_t length) = 0;
  virtual int punch(uint64_t offset, uint64_t bytes) = 0;  // zeros from now on
};

// A plain file, reached by pread and pwrite.
std::unique_ptr<Storage> storage_of_fd(UniqueFd fd);

class DataFile {
 public:
  // length: what stat says. The space used by `chunks` counts already.
  DataFile(std::unique_ptr<Storage> storage, ChunkMap chunks, uint64_t length, Space& space);

  // Reads what is stored of [offset, offset + into.size()) as `pieces` say, which are taken first.
  std::vector<ReadPiece> pieces(uint64_t offset, uint64_t bytes) const;
  // Moves the pieces' stored bytes, zeros into holes before stored bytes; 0 or -errno.
  int move(uint64_t offset, std::span<std::byte> into, std::span<ReadPiece> pieces);
  // settle: the length shows at once (a write through the kernel), else when settled.
  int64_t write(uint64_t offset, std::span<const std::byte> from, bool settle);
  int64_t read_plain(uint64_t offset, std::span<std::byte> into);  // as the kernel's path does
  int truncate(uint64_t length);
  int punch(uint64_t begin, uint64_t end);  // whole chunks, else -EINVAL; the length stays
  void collect();                           // all chunks vanish, as after unlink and GC

  uint64_t length(bool delayed) const;  // delayed: as last settled
  void settle();                        // fsync, close, ioctl, periodic sync
  uint64_t stored_bytes() const;

 private:
  const std::unique_ptr<Storage> storage_;
  mutable std::mutex lock_;
  ChunkMap chunks_;
  uint64_t length_;
  Space& space_;
};

class FileTable {
 public:
  virtual ~FileTable() = default;
  // The open file with that inode number; null: unknown, or not a file (-EBADF). Any thread.
  virtual std::shared_ptr<DataFile> find(uint64_t inode) = 0;
};

}  // namespace kvsidecar::fake3fs
