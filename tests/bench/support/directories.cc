// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/support/directories.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kTrailerBytes = 128;

void write_segment(const std::string& folder, Superblock superblock, uint64_t first, uint32_t count,
                   const std::function<Hash128(uint64_t)>& hash_of) {
  superblock.directory_entries =
      static_cast<uint32_t>(align_up(std::max(count, 1u), kEntriesPerBlock));
  std::vector<std::byte> head(superblock.slots_offset());
  encode_superblock(superblock, std::span(head).first(superblock.head_bytes()));
  DirectoryEntry entry;
  entry.kind = EntryKind::kPage;
  entry.page_bytes = superblock.page_bytes;
  entry.trailer_bytes = kTrailerBytes;
  uint64_t end = superblock.slots_offset();
  for (uint32_t i = 0; i < count; ++i) {
    entry.number = i;
    entry.hash = hash_of(first + i);
    entry.offset = align_up(end, superblock.slot_alignment);
    end = slot_end(entry.offset, entry.page_bytes, kTrailerBytes);
    std::byte* at = head.data() + superblock.head_bytes() + uint64_t{i} * kEntryBytes;
    encode_entry(entry, superblock.segment, std::span<std::byte, kEntryBytes>(at, kEntryBytes));
  }
  const std::string path = folder + "/" + segment_name(superblock.segment);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  KV_CHECK(fd &&
           ::pwrite(fd.get(), head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()));
  KV_CHECK(::ftruncate(fd.get(), static_cast<off_t>(align_up(end, kBlockBytes))) == 0);
}

}  // namespace

void make_directories(const std::string& folder, const Superblock& like, uint64_t first,
                      uint64_t pages, const std::function<Hash128(uint64_t)>& hash_of) {
  Superblock superblock = like;
  superblock.segment = first;
  for (uint64_t done = 0; done < pages; done += kDirectoryEntriesMax, ++superblock.segment)
    write_segment(folder, superblock, done,
                  static_cast<uint32_t>(std::min<uint64_t>(pages - done, kDirectoryEntriesMax)),
                  hash_of);
}

}  // namespace kvsidecar
