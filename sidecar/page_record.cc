// SPDX-License-Identifier: Apache-2.0
#include "sidecar/page_record.h"

#include <bit>
#include <cstring>

#include "ipc/layout.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar {
namespace {

static_assert(std::endian::native == std::endian::little, "the encoding is little-endian");

struct Head {
  uint32_t total_bytes, key_bytes, parts, description_bytes;
  Hash128 namespace_id;
  uint64_t generation, page_bytes;
  Hash128 hash;
  uint64_t digest;
};
static_assert(sizeof(Head) == 72 && sizeof(Hash128) == 16);

constexpr size_t kCheckBytes = 8;

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  void put(const void* from, size_t bytes) {
    if (bytes != 0) std::memcpy(at_, from, bytes);
    at_ += bytes;
  }
  std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

Status corrupt(const char* what) { return {Code::kCorrupt, std::string("page record: ") + what}; }

}  // namespace

size_t record_bytes(size_t parts, size_t key_bytes, size_t description_bytes) {
  const size_t content = sizeof(Head) + parts * 8 + key_bytes + description_bytes;
  return (content + 7) / 8 * 8 + kCheckBytes;
}

size_t record_bytes(const PageRecord& record) {
  return record_bytes(record.part_digests.size(), record.key.size(), record.description.size());
}

void encode_record(const PageRecord& record, std::span<std::byte> out) {
  const size_t total = record_bytes(record);
  KV_CHECK(out.size() >= total);
  const Head head{static_cast<uint32_t>(total),
                  static_cast<uint32_t>(record.key.size()),
                  static_cast<uint32_t>(record.part_digests.size()),
                  static_cast<uint32_t>(record.description.size()),
                  record.namespace_id,
                  record.generation,
                  record.page_bytes,
                  record.hash,
                  record.digest};
  Writer writer(out.data());
  writer.put(&head, sizeof head);
  writer.put(record.part_digests.data(), record.part_digests.size() * 8);
  writer.put(record.key.data(), record.key.size());
  writer.put(record.description.data(), record.description.size());
  std::byte* const check_at = out.data() + total - kCheckBytes;
  std::memset(writer.at(), 0, static_cast<size_t>(check_at - writer.at()));
  const uint64_t check = XXH3_64bits(out.data(), total - kCheckBytes);
  std::memcpy(check_at, &check, sizeof check);
}

Result<PageRecord> decode_record(Bytes bytes) {
  Head head;
  if (bytes.size() < sizeof head + kCheckBytes) return corrupt("shorter than its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.key_bytes == 0 || head.key_bytes > kKeyBytesMax) return corrupt("key length");
  if (head.parts == 0 || head.parts > kPartsMax) return corrupt("number of parts");
  if (head.description_bytes > kDescriptionBytesMax) return corrupt("description length");
  if (head.page_bytes == 0 || head.page_bytes > kPageBytesMax) return corrupt("page length");
  if (head.total_bytes != record_bytes(head.parts, head.key_bytes, head.description_bytes))
    return corrupt("lengths that don't add up");
  if (head.total_bytes > bytes.size()) return corrupt("longer than the bytes given");

  uint64_t check;
  const size_t checked_bytes = head.total_bytes - kCheckBytes;
  std::memcpy(&check, bytes.data() + checked_bytes, sizeof check);
  if (check != XXH3_64bits(bytes.data(), checked_bytes)) return corrupt("check");

  PageRecord record;
  record.hash = head.hash;
  record.namespace_id = head.namespace_id;
  record.generation = head.generation;
  record.page_bytes = head.page_bytes;
  record.digest = head.digest;
  const std::byte* at = bytes.data() + sizeof head;
  record.part_digests.resize(head.parts);
  std::memcpy(record.part_digests.data(), at, size_t{head.parts} * 8);
  at += size_t{head.parts} * 8;
  record.key.assign(at, at + head.key_bytes);
  at += head.key_bytes;
  record.description.assign(at, at + head.description_bytes);
  return record;
}

Bytes record_key(Bytes bytes) {
  Head head;
  if (bytes.size() < sizeof head) return {};
  std::memcpy(&head, bytes.data(), sizeof head);
  const uint64_t begin = sizeof head + uint64_t{head.parts} * sizeof(uint64_t);
  if (begin > bytes.size() || head.key_bytes > bytes.size() - begin) return {};
  return bytes.subspan(begin, head.key_bytes);
}

}  // namespace kvsidecar
