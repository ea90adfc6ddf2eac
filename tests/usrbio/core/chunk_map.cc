// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/chunk_map.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace kvsidecar::fake3fs {

uint64_t ChunkMap::stored_in(uint64_t chunk) const {
  const auto found = stored_.find(chunk);
  return found == stored_.end() ? 0 : found->second;
}

std::vector<ReadPiece> ChunkMap::pieces(uint64_t offset, uint64_t bytes) const {
  std::vector<ReadPiece> pieces;
  while (bytes > 0) {
    const uint64_t within = offset % chunk_bytes_;
    const uint64_t wanted = std::min(bytes, chunk_bytes_ - within);
    const uint64_t stored = stored_in(offset / chunk_bytes_);
    const uint64_t got = stored > within ? std::min(wanted, stored - within) : 0;
    if (got > 0 && !pieces.empty() && pieces.back().got == pieces.back().wanted) {
      pieces.back().wanted += wanted;
      pieces.back().got += got;
    } else {
      pieces.push_back({.wanted = wanted, .got = got});
    }
    offset += wanted;
    bytes -= wanted;
  }
  return pieces;
}

uint64_t ChunkMap::growth(uint64_t offset, uint64_t bytes) const {
  uint64_t added = 0;
  while (bytes > 0) {
    const uint64_t within = offset % chunk_bytes_;
    const uint64_t part = std::min(bytes, chunk_bytes_ - within);
    const uint64_t stored = stored_in(offset / chunk_bytes_);
    added += std::max(stored, within + part) - stored;
    offset += part;
    bytes -= part;
  }
  return added;
}

void ChunkMap::written(uint64_t offset, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t within = offset % chunk_bytes_;
    const uint64_t part = std::min(bytes, chunk_bytes_ - within);
    uint64_t& stored = stored_[offset / chunk_bytes_];
    stored = std::max(stored, within + part);
    offset += part;
    bytes -= part;
  }
}

void ChunkMap::cut(uint64_t length) {
  const uint64_t within = length % chunk_bytes_;
  auto last = stored_.lower_bound(length / chunk_bytes_);
  if (within > 0 && last != stored_.end() && last->first == length / chunk_bytes_) {
    last->second = std::min(last->second, within);
    ++last;
  }
  stored_.erase(last, stored_.end());
}

void ChunkMap::extend(uint64_t length) {
  if (length > 0) written(length - 1, 1);
}

void ChunkMap::remove(uint64_t first_chunk, uint64_t chunks) {
  stored_.erase(stored_.lower_bound(first_chunk), stored_.lower_bound(first_chunk + chunks));
}

uint64_t ChunkMap::stored_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [chunk, stored] : stored_) bytes += stored;
  return bytes;
}

uint64_t ChunkMap::end() const {
  return stored_.empty() ? 0 : stored_.rbegin()->first * chunk_bytes_ + stored_.rbegin()->second;
}

ChunkMap chunks_of_file(int fd, uint64_t chunk_bytes) {
  ChunkMap chunks(chunk_bytes);
  off_t at = 0;
  while ((at = ::lseek(fd, at, SEEK_DATA)) >= 0) {
    const off_t hole = ::lseek(fd, at, SEEK_HOLE);
    if (hole <= at) break;
    chunks.written(static_cast<uint64_t>(at), static_cast<uint64_t>(hole - at));
    at = hole;
  }
  struct stat facts {};
  if (::fstat(fd, &facts) == 0) chunks.cut(static_cast<uint64_t>(facts.st_size));
  return chunks;
}

}  // namespace kvsidecar::fake3fs
