// SPDX-License-Identifier: Apache-2.0
// Adoption of arbitrary bytes: no crash, no read outside, slots that never overlap, and in the end
// every span is empty again. span_table_input.h says how an input becomes a chunk; the label's and
// the headers' checks may be made right again, so that what stands behind them is reached.
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "sidecar/pool/host_pool.h"
#include "sidecar/pool/span_table.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/span_table_input.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar::fuzz {
namespace {

constexpr uint64_t kFuzzSpanBytes = 16 * 1024;
constexpr uint32_t kSpans = 8;
constexpr uint64_t kChunkBytes = kSpans * kFuzzSpanBytes;

alignas(4096) std::byte chunk[kChunkBytes];

PageRecord record_of(uint64_t page_bytes) {
  PageRecord record;
  record.hash = {page_bytes, page_bytes};
  record.page_bytes = page_bytes;
  record.part_digests = {1};
  record.key.resize(16);
  return record;
}

void write_valid_chunk() {
  HostPool pool(1, kFuzzSpanBytes, 77);
  pool.add_chunk(chunk);
  for (const uint64_t page : {4'096u, 4'000u, 20'000u}) {
    const SlotId slot = pool.allocate(slot_shape(page, 1, 0));
    require(pool.publish(slot, record_of(page), PageAccess{.page = page}), "a page is published");
  }
  (void)pool.allocate(slot_shape(4'096, 1, 0));
}

// A run anywhere, over others too, as a damaged or hostile predecessor may have left it.
void write_run(const WrittenRun& run, uint64_t nonce) {
  const uint32_t span = run.span % kSpans;
  const uint32_t spans = run.spans % (kSpans + 2u);
  const SlotShape shape{(run.slot_units % 12u) * kSlotAlignBytes, 256u << (run.entry_log % 4)};
  if (spans == 0 || span + spans > kSpans || !is_sane(shape)) return;
  RunLayout layout = layout_run(shape, kFuzzSpanBytes, spans);
  if (layout.slots == 0) return;
  TableWriter writer(run.epoch);
  std::byte* const memory = chunk + span * kFuzzSpanBytes;
  writer.format(memory, {kFuzzSpanBytes, span, nonce}, shape, layout, false);
  for (uint32_t slot = 0; slot < layout.slots && slot < 8; ++slot) {
    if ((run.full >> slot & 1) != 0 && (run.filling >> slot & 1) != 0) {
      memory[entry_offset(shape, slot)] = std::byte{9};
    } else if ((run.full >> slot & 1) != 0) {
      const PageRecord record = record_of(shape.slot_bytes - run.epoch);
      if (kEntryHeadBytes + record_bytes(record) <= shape.entry_bytes)
        writer.set_full(memory, shape, slot, record);
    } else if ((run.filling >> slot & 1) != 0) {
      writer.set_filling(memory, shape, slot);
    }
  }
}

void make_right() {
  if (!decode_label(chunk)) TableWriter(1).label(chunk, 5);
  const uint64_t nonce = *decode_label(chunk);
  for (std::byte* span = chunk; span < chunk + kChunkBytes; span += kFuzzSpanBytes) {
    const uint64_t check = XXH3_64bits_withSeed(span, 56, nonce);
    std::memcpy(span + 56, &check, 8);
  }
}

void make_chunk(FuzzInput& in) {
  const uint8_t mode = in.take<uint8_t>();
  std::memset(chunk, 0, sizeof chunk);
  if ((mode & (kChunkEdits | kChunkRuns)) == 0) {
    const auto bytes = in.take_bytes(sizeof chunk);
    if (!bytes.empty()) std::memcpy(chunk, bytes.data(), bytes.size());
  }
  if (mode & kChunkEdits) write_valid_chunk();
  if (mode & kChunkRuns) {
    if (!decode_label(chunk)) TableWriter(1).label(chunk, 5);
    const uint64_t nonce = *decode_label(chunk);
    for (int runs = in.take<uint8_t>() % 8; runs > 0; --runs)
      write_run(in.take<WrittenRun>(), nonce);
  }
  while (!in.empty()) {
    const uint32_t edit = in.take<uint32_t>();
    chunk[(edit & 0xffffff) % kChunkBytes] = static_cast<std::byte>(edit >> 24);
  }
  if (mode & kChunkRightChecks) make_right();
}

void adopt() {
  HostPool pool(2, kFuzzSpanBytes, 78);
  std::map<const std::byte*, SlotId> taken;
  const auto take = [&](SlotId slot) {
    require(taken.emplace(pool.bytes(slot), slot).second, "a slot has one owner");
  };
  const auto check_places = [&] {
    const std::byte* end = chunk;
    for (const auto& [begin, slot] : taken) {
      require(begin >= end, "slots don't overlap");
      end = begin + pool.slot_bytes(slot);
    }
    require(end <= chunk + sizeof chunk, "slots lie in the chunk");
  };
  pool.adopt_chunk(chunk, [&](SlotId slot, PageRecord&& record) {
    require(record.page_bytes <= pool.slot_bytes(slot), "a page lies in its slot");
    take(slot);
  });
  require(pool.usage().slots_full == taken.size(), "full slots are reported");
  for (const uint64_t page : {20'000u, 4'096u})
    for (SlotId slot; (slot = pool.allocate(slot_shape(page, 1, 0))) != kNoSlot;) take(slot);
  check_places();
  pool.release_quarantine();
  for (SlotId slot; (slot = pool.allocate(slot_shape(4'096, 1, 0))) != kNoSlot;) take(slot);
  check_places();
  for (const auto& [begin, slot] : taken) pool.release(slot);
  const HostPool::Usage left = pool.usage();
  require(left.spans == kSpans && left.spans_empty == kSpans && left.stranded_bytes == 0 &&
              left.slots_full + left.slots_filling + left.slots_quarantined == 0,
          "everything is empty in the end");
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar;
  using namespace kvsidecar::fuzz;
  const auto* const raw = reinterpret_cast<const std::byte*>(data);
  (void)decode_record(std::vector<std::byte>(raw, raw + bytes));
  FuzzInput in(data, bytes);
  make_chunk(in);
  adopt();
  return 0;
}
