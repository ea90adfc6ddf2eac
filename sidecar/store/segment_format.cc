// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ipc/layout.h"
#include "sidecar/page_record.h"

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

namespace kvsidecar {
namespace {

constexpr char kMagic[8] = {'K', 'V', 'S', 'E', 'G', 'M', '0', '1'};
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = 112;  // before the namespace's form
constexpr size_t kCheckBytes = 8;
constexpr uint32_t kImportMark = 1;  // of an entry; other bits of the word are free

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t check_of(const std::byte* bytes, size_t count, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, count, seed);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

uint64_t Superblock::head_bytes() const {
  return align_up(kFixedBytes + encoded.size() + kCheckBytes, kBlockBytes);
}

void encode_superblock(const Superblock& s, std::span<std::byte> out) {
  KV_CHECK(out.size() == s.head_bytes() && s.encoded.size() <= kIdentityBytesMax);
  std::byte* at = out.data();
  std::memset(at, 0, out.size());
  std::memcpy(at, kMagic, sizeof kMagic);
  put(at + 8, kVersion);
  put(at + 12, static_cast<uint32_t>(out.size()));
  put(at + 16, s.segment);
  put(at + 24, s.node.low);
  put(at + 32, s.node.high);
  const Hash128 id = s.encoded.empty() ? Hash128{} : namespace_id(s.encoded);
  put(at + 40, id.low);
  put(at + 48, id.high);
  put(at + 56, s.generation);
  put(at + 64, s.page_bytes);
  put(at + 72, s.created_ms);
  put(at + 80, s.slot_alignment);
  put(at + 84, s.directory_entries);
  put(at + 88, static_cast<uint32_t>(s.encoded.size()));
  if (!s.encoded.empty()) std::memcpy(at + kFixedBytes, s.encoded.data(), s.encoded.size());
  put(at + out.size() - kCheckBytes, check_of(at, out.size() - kCheckBytes, 0));
}

Result<Superblock> decode_superblock(Bytes bytes) {
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return Status(Code::kMiss, "the file does not begin with a segment's magic");
  if (bytes.size() < kBlockBytes) return Status(Code::kCorrupt, "the superblock is cut short");
  const std::byte* at = bytes.data();
  const auto version = get<uint32_t>(at + 8);
  if (version != kVersion)
    return Status(Code::kCorrupt, "segment format " + std::to_string(version) +
                                      " is unknown; this daemon reads format " +
                                      std::to_string(kVersion));
  const auto head_bytes = get<uint32_t>(at + 12);
  const auto encoded_bytes = get<uint32_t>(at + 88);
  if (encoded_bytes > kIdentityBytesMax || head_bytes > bytes.size() ||
      head_bytes != align_up(kFixedBytes + encoded_bytes + kCheckBytes, kBlockBytes))
    return Status(Code::kCorrupt, "the superblock's lengths do not fit the file");
  if (get<uint64_t>(at + head_bytes - kCheckBytes) != check_of(at, head_bytes - kCheckBytes, 0))
    return Status(Code::kCorrupt, "the superblock fails its check");
  Superblock s;
  s.segment = get<uint64_t>(at + 16);
  s.node = {get<uint64_t>(at + 24), get<uint64_t>(at + 32)};
  s.generation = get<uint64_t>(at + 56);
  s.page_bytes = get<uint64_t>(at + 64);
  s.created_ms = get<uint64_t>(at + 72);
  s.slot_alignment = get<uint32_t>(at + 80);
  s.directory_entries = get<uint32_t>(at + 84);
  s.encoded.assign(at + kFixedBytes, at + kFixedBytes + encoded_bytes);
  if (s.directory_entries == 0 || s.directory_entries % kEntriesPerBlock != 0 ||
      s.directory_entries > kDirectoryEntriesMax)
    return Status(Code::kCorrupt, "the superblock's directory_entries are out of range");
  // Beyond it an entry's end could wrap around and lie inside of the file.
  if (s.page_bytes > kPageBytesMax)
    return Status(Code::kCorrupt, "the superblock's page_bytes are out of range");
  if (s.generation > kGenerationMax)
    return Status(Code::kCorrupt, "the superblock's generation is out of range");
  return s;
}

void encode_entry(const DirectoryEntry& e, uint64_t in_segment,
                  std::span<std::byte, kEntryBytes> out) {
  std::byte* at = out.data();
  std::memset(at, 0, kEntryBytes);
  const bool page = e.kind == EntryKind::kPage;
  put(at, static_cast<uint32_t>(e.kind));
  put(at + 4, e.number);
  put(at + 8, e.hash.low);
  put(at + 16, e.hash.high);
  put(at + 24, e.page_bytes);
  put(at + 32, e.digest);
  put(at + 40, page ? e.offset : e.segment);
  put(at + 48, page ? e.trailer_bytes : e.slot);
  put(at + 52, page && e.imported ? kImportMark : 0u);
  put(at + 56, e.written_ms);
  put(at + kEntryBytes - kCheckBytes, check_of(at, kEntryBytes - kCheckBytes, in_segment));
}

DirectoryEntry decode_entry(std::span<const std::byte, kEntryBytes> bytes, uint64_t in_segment,
                            uint32_t number) {
  DirectoryEntry e;
  const std::byte* at = bytes.data();
  const auto kind = get<uint32_t>(at);
  if (kind == 0 && all_zero(bytes)) return e;
  e.number = get<uint32_t>(at + 4);
  e.kind = EntryKind::kTorn;
  if (e.number != number || (kind != static_cast<uint32_t>(EntryKind::kPage) &&
                             kind != static_cast<uint32_t>(EntryKind::kTombstone)))
    return e;
  if (get<uint64_t>(at + kEntryBytes - kCheckBytes) !=
      check_of(at, kEntryBytes - kCheckBytes, in_segment))
    return e;
  e.kind = static_cast<EntryKind>(kind);
  e.hash = {get<uint64_t>(at + 8), get<uint64_t>(at + 16)};
  e.page_bytes = get<uint64_t>(at + 24);
  e.digest = get<uint64_t>(at + 32);
  const bool page = e.kind == EntryKind::kPage;
  (page ? e.offset : e.segment) = get<uint64_t>(at + 40);
  (page ? e.trailer_bytes : e.slot) = get<uint32_t>(at + 48);
  e.imported = page && (get<uint32_t>(at + 52) & kImportMark) != 0;
  e.written_ms = get<uint64_t>(at + 56);
  return e;
}

uint64_t trailer_offset(uint64_t offset, uint64_t page_bytes) {
  return align_up(offset + page_bytes, page_bytes < kPackedBytes ? 8 : kBlockBytes);
}

uint64_t slot_end(uint64_t offset, uint64_t page_bytes, uint64_t trailer_bytes) {
  const uint64_t end = trailer_offset(offset, page_bytes) + trailer_bytes;
  return align_up(end, page_bytes < kPackedBytes ? kSlotUnit : kBlockBytes);
}

uint64_t place_slot(uint64_t end, uint64_t bytes, uint64_t alignment, uint64_t stripe_bytes) {
  const uint64_t offset = align_up(end, alignment);
  if (stripe_bytes == 0 || bytes > stripe_bytes || offset % stripe_bytes + bytes <= stripe_bytes)
    return offset;
  const uint64_t next = align_up(offset, stripe_bytes);
  return next - offset <= stripe_bytes / 8 ? next : offset;
}

uint32_t directory_entries_for(uint64_t segment_bytes, uint64_t page_bytes,
                               uint64_t trailer_bytes) {
  const uint64_t slot_bytes = slot_end(0, page_bytes, trailer_bytes);
  const uint64_t wanted = std::max<uint64_t>(segment_bytes / slot_bytes, 1);
  return static_cast<uint32_t>(
      std::min<uint64_t>(align_up(wanted, kEntriesPerBlock), kDirectoryEntriesMax));
}

std::string segment_name(uint64_t segment) {
  char name[40];
  std::snprintf(name, sizeof name, "%08x-%08x.seg", static_cast<uint32_t>(segment >> 32),
                static_cast<uint32_t>(segment));
  return name;
}

uint64_t segment_from_name(std::string_view name) {
  if (name.size() != 21 || name[8] != '-' || name.substr(17) != ".seg") return 0;
  uint64_t parts[2] = {0, 0};
  for (size_t i = 0; i < 17; ++i) {
    if (i == 8) continue;
    const char c = name[i];
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return 0;
    uint64_t& part = parts[i > 8];
    part = part << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return parts[0] << 32 | parts[1];
}

}  // namespace kvsidecar
