// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvsidecar::fake3fs {

DataFile::DataFile(std::unique_ptr<Storage> storage, ChunkMap chunks, uint64_t length, Space& space)
    : storage_(std::move(storage)), chunks_(std::move(chunks)), length_(length), space_(space) {}

std::vector<ReadPiece> DataFile::pieces(uint64_t offset, uint64_t bytes) const {
  std::lock_guard guard(lock_);
  return chunks_.pieces(offset, bytes);
}

int DataFile::move(uint64_t offset, std::span<std::byte> into, std::span<ReadPiece> pieces) {
  uint64_t at = 0, filled = 0;
  for (ReadPiece& piece : pieces) {
    if (piece.got > 0) {
      const int64_t got = storage_->read(offset + at, into.subspan(at, piece.got));
      if (got < 0) return static_cast<int>(got);
      piece.got = static_cast<uint64_t>(got);  // less: cut meanwhile
    }
    if (piece.got > 0) {
      std::memset(into.data() + filled, 0, at - filled);
      filled = at + piece.got;
    }
    at += piece.wanted;
  }
  return 0;
}

int64_t DataFile::write(uint64_t offset, std::span<const std::byte> from, bool settle) {
  uint64_t reserved = 0;
  {
    std::lock_guard guard(lock_);
    reserved = chunks_.growth(offset, from.size());
    if (const int error = space_.grow(reserved); error < 0) return error;
  }
  const int64_t moved = storage_->write(offset, from);
  std::lock_guard guard(lock_);
  if (moved <= 0) {
    space_.shrink(reserved);
    return moved;
  }
  // Another write to the same chunk may have counted a part of it meanwhile.
  space_.shrink(reserved - std::min(reserved, chunks_.growth(offset, from.size())));
  chunks_.written(offset, static_cast<uint64_t>(moved));
  if (settle) length_ = std::max(length_, offset + static_cast<uint64_t>(moved));
  return moved;
}

int64_t DataFile::read_plain(uint64_t offset, std::span<std::byte> into) {
  const uint64_t end = length(false);
  if (offset >= end) return 0;
  const uint64_t bytes = std::min<uint64_t>(into.size(), end - offset);
  const int64_t got = storage_->read(offset, into.first(bytes));
  if (got < 0) return got;
  std::memset(into.data() + got, 0, bytes - static_cast<uint64_t>(got));
  return static_cast<int64_t>(bytes);
}

int DataFile::truncate(uint64_t length) {
  std::lock_guard guard(lock_);
  const uint64_t before = chunks_.stored_bytes();
  const bool longer = length > std::max(length_, chunks_.end());
  if (longer) {
    if (const int error = space_.grow(chunks_.growth(length - 1, 1)); error < 0) return error;
    const std::byte zero{0};
    // Written, not only extended: so the chunk is found again when the server is killed.
    if (const int64_t wrote = storage_->write(length - 1, {&zero, 1}); wrote < 0)
      return static_cast<int>(wrote);
    chunks_.extend(length);
  } else {
    if (const int error = storage_->truncate(length); error < 0) return error;
    chunks_.cut(length);
    space_.shrink(before - chunks_.stored_bytes());
  }
  length_ = length;
  return 0;
}

int DataFile::punch(uint64_t begin, uint64_t end) {
  std::lock_guard guard(lock_);
  const uint64_t chunk = chunks_.chunk_bytes();
  if (begin % chunk != 0 || end % chunk != 0 || end < begin) return -EINVAL;
  length_ = std::max(length_, chunks_.end());
  const uint64_t stop = std::min(end, (length_ + chunk - 1) / chunk * chunk);
  if (stop <= begin) return 0;
  if (const int error = storage_->punch(begin, stop - begin); error < 0) return error;
  const uint64_t before = chunks_.stored_bytes();
  chunks_.remove(begin / chunk, (stop - begin) / chunk);
  space_.shrink(before - chunks_.stored_bytes());
  return 0;
}

void DataFile::collect() {
  std::lock_guard guard(lock_);
  length_ = std::max(length_, chunks_.end());
  space_.shrink(chunks_.stored_bytes());
  chunks_.clear();
  storage_->truncate(0);
}

uint64_t DataFile::length(bool delayed) const {
  std::lock_guard guard(lock_);
  return delayed ? length_ : std::max(length_, chunks_.end());
}

void DataFile::settle() {
  std::lock_guard guard(lock_);
  length_ = std::max(length_, chunks_.end());
}

uint64_t DataFile::stored_bytes() const {
  std::lock_guard guard(lock_);
  return chunks_.stored_bytes();
}

}  // namespace kvsidecar::fake3fs
