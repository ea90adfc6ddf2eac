// SPDX-License-Identifier: Apache-2.0
// Which chunks of a file are stored, and how much of each: bytes from the chunk's beginning, since
// a gap inside a chunk is filled with zeros when something behind it is written. Pure; one owner.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace kvsidecar::fake3fs {

// A part of a read as the storage answers it: `got` of `wanted` bytes are stored, from the front.
// Chunks that are stored to their end are taken together with what follows them.
struct ReadPiece {
  uint64_t wanted = 0, got = 0;
};

class ChunkMap {
 public:
  explicit ChunkMap(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  uint64_t chunk_bytes() const { return chunk_bytes_; }

  std::vector<ReadPiece> pieces(uint64_t offset, uint64_t bytes) const;
  uint64_t growth(uint64_t offset, uint64_t bytes) const;  // stored bytes that a write would add
  void written(uint64_t offset, uint64_t bytes);
  void cut(uint64_t length);  // what lies behind is gone
  // A longer file gets its last chunk, zeros up to the length; everything between is a hole.
  void extend(uint64_t length);
  void remove(uint64_t first_chunk, uint64_t chunks);
  void clear() { stored_.clear(); }
  uint64_t stored_bytes() const;
  uint64_t end() const;  // of the last stored byte

 private:
  uint64_t stored_in(uint64_t chunk) const;
  const uint64_t chunk_bytes_;
  std::map<uint64_t, uint64_t> stored_;  // chunk -> bytes from its beginning
};

// From where a plain file has data: what is left of a map when the server was killed. A chunk that
// was stored in part may come back rounded up to the file system's block.
ChunkMap chunks_of_file(int fd, uint64_t chunk_bytes);

}  // namespace kvsidecar::fake3fs
