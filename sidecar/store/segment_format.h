// SPDX-License-Identifier: Apache-2.0
// How a segment file looks. Pure encode and decode; any thread.
//
//   [superblock: 4 KiB, more when the namespace's form doesn't fit][directory: N entries of 128
//   bytes, padded to 4 KiB][slots]
//
// Integers are little-endian. Superblock and entries carry their own XXH3-64 check; an entry's is
// seeded with the segment's id, so that an entry copied from another segment fails. Entries are
// appended in order and never changed; a slot's number is its entry's number. A slot is the page
// followed by its PageRecord (the trailer). Large pages begin on 4 KiB and their trailer on the
// next 4 KiB; packed pages (below kPackedBytes) begin on 64 bytes, their trailer on the next 8.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ipc/identity.h"

namespace kvsidecar {

inline constexpr uint64_t kBlockBytes = 4096;
inline constexpr uint32_t kEntryBytes = 128;
inline constexpr uint32_t kEntriesPerBlock = kBlockBytes / kEntryBytes;
inline constexpr uint32_t kDirectoryEntriesMax = 65536;
inline constexpr uint64_t kPackedBytes = 64 * 1024;
inline constexpr uint64_t kGroupBytes = 1 << 20;  // one write of packed pages
inline constexpr uint64_t kSlotUnit = 64;
inline constexpr uint64_t kSuperblockBytesMax = kBlockBytes + kIdentityBytesMax;

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value / alignment * alignment;
}

struct Superblock {
  uint64_t segment = 0;  // epoch << 32 | sequence
  Hash128 node;
  uint64_t generation = 0, page_bytes = 0;
  uint64_t created_ms = 0;         // wall clock
  uint32_t slot_alignment = 0;     // 64 or 4096
  uint32_t directory_entries = 0;  // a multiple of kEntriesPerBlock
  std::vector<std::byte> encoded;  // the namespace's canonical form; empty: tombstones only

  uint64_t head_bytes() const;  // where the directory begins
  uint64_t slots_offset() const { return head_bytes() + uint64_t{directory_entries} * kEntryBytes; }
  bool packed() const { return page_bytes < kPackedBytes; }
};

// `out` is zeroed and filled; its size must be head_bytes().
void encode_superblock(const Superblock& superblock, std::span<std::byte> out);
// kCorrupt with a sentence when the bytes aren't a whole superblock of this version; `bytes` may be
// longer. kMiss when they don't begin with the magic (a foreign file).
Result<Superblock> decode_superblock(Bytes bytes);

enum class EntryKind : uint32_t { kEmpty = 0, kTorn = 1, kPage = 2, kTombstone = 3 };

struct DirectoryEntry {
  EntryKind kind = EntryKind::kEmpty;
  uint32_t number = 0;  // of this entry in its directory
  Hash128 hash;         // of the page
  uint64_t page_bytes = 0, digest = 0;
  uint64_t offset = 0;         // kPage: of the page in the file
  uint32_t trailer_bytes = 0;  // kPage
  bool imported = false;       // kPage: its description says where it came from
  uint64_t segment = 0;        // kTombstone: whose page is deleted
  uint32_t slot = 0;           // kTombstone
  uint64_t written_ms = 0;     // wall clock
};

void encode_entry(const DirectoryEntry& entry, uint64_t in_segment,
                  std::span<std::byte, kEntryBytes> out);
// kEmpty: all zero. kTorn: fails its check or isn't entry `number` of that segment.
DirectoryEntry decode_entry(std::span<const std::byte, kEntryBytes> bytes, uint64_t in_segment,
                            uint32_t number);

// Where the trailer of a page at `offset` begins.
uint64_t trailer_offset(uint64_t offset, uint64_t page_bytes);
// End of the slot, in bytes of the file.
uint64_t slot_end(uint64_t offset, uint64_t page_bytes, uint64_t trailer_bytes);
// First place at or after `end` for a slot. It doesn't cross a stripe's border where that wastes at
// most an eighth of the stripe; slots larger than a stripe cross anyway.
uint64_t place_slot(uint64_t end, uint64_t bytes, uint64_t alignment, uint64_t stripe_bytes);
// Entries that a segment of about that size needs for pages of that size.
uint32_t directory_entries_for(uint64_t segment_bytes, uint64_t page_bytes, uint64_t trailer_bytes);

// "<epoch hex>-<sequence hex>.seg" and back; 0 when the name isn't one.
std::string segment_name(uint64_t segment);
uint64_t segment_from_name(std::string_view name);

}  // namespace kvsidecar
