// SPDX-License-Identifier: Apache-2.0
// Adoption of arbitrary bytes: no crash, no read outside, and slots that never overlap. The first
// byte of the input says how the rest becomes a chunk: as it is, or as edits (u24 offset, u8 value)
// of a chunk that a pool wrote; in both cases the headers' checks may be made right again, so that
// what stands behind them is reached.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "sidecar/pool/host_pool.h"
#include "sidecar/pool/span_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace kvsidecar;

namespace {

constexpr uint64_t kFuzzSpanBytes = 16 * 1024;
constexpr uint64_t kChunkBytes = 8 * kFuzzSpanBytes;
enum Mode : uint8_t { kEdits = 1, kRightChecks = 2 };

alignas(4096) std::byte chunk[kChunkBytes];

void write_valid_chunk() {
  HostPool pool(1, kFuzzSpanBytes);
  pool.add_chunk(chunk);
  for (const uint64_t page : {4'096u, 4'000u, 20'000u}) {
    PageRecord record;
    record.hash = {page, page};
    record.page_bytes = page;
    record.part_digests = {1};
    record.key.resize(16);
    const SlotId slot = pool.allocate(slot_shape(page, 1, 0));
    if (!pool.publish(slot, record, PageAccess{.page = page})) std::abort();
  }
  (void)pool.allocate(slot_shape(4'096, 1, 0));
}

void make_chunk(const uint8_t* data, size_t bytes) {
  const uint8_t mode = bytes > 0 ? data[0] : 0;
  if (bytes > 0) ++data, --bytes;
  std::memset(chunk, 0, sizeof chunk);
  if (mode & kEdits) {
    write_valid_chunk();
    for (; bytes >= 4; data += 4, bytes -= 4) {
      uint32_t edit;
      std::memcpy(&edit, data, 4);
      chunk[(edit & 0xffffff) % kChunkBytes] = static_cast<std::byte>(edit >> 24);
    }
  } else {
    std::memcpy(chunk, data, bytes < sizeof chunk ? bytes : sizeof chunk);
  }
  if (!(mode & kRightChecks)) return;
  TableWriter(1).label(chunk, 0);
  for (std::byte* span = chunk; span < chunk + kChunkBytes; span += kFuzzSpanBytes) {
    const uint64_t check = XXH3_64bits(span, 56);
    std::memcpy(span + 56, &check, 8);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* const raw = reinterpret_cast<const std::byte*>(data);
  (void)decode_record(std::vector<std::byte>(raw, raw + bytes));

  make_chunk(data, bytes);
  HostPool pool(2, kFuzzSpanBytes);
  std::map<const std::byte*, uint64_t> taken;
  const auto take = [&](SlotId slot) {
    if (!taken.emplace(pool.bytes(slot), pool.slot_bytes(slot)).second) std::abort();
  };
  pool.adopt_chunk(chunk, [&](SlotId slot, PageRecord&&) { take(slot); });
  for (const uint64_t page : {20'000u, 4'096u})
    for (SlotId slot; (slot = pool.allocate(slot_shape(page, 1, 0))) != kNoSlot;) take(slot);
  const std::byte* end = chunk;
  for (const auto& [begin, slot_bytes] : taken) {
    if (begin < end) std::abort();
    end = begin + slot_bytes;
  }
  if (end > chunk + sizeof chunk) std::abort();
  pool.release_quarantine();
  return 0;
}
