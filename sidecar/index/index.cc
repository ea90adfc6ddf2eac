// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/index.h"

#include <algorithm>
#include <vector>

#include "sidecar/index/index_entries.h"
#include "sidecar/index/index_shard.h"

namespace kvsidecar {
namespace {

// A shard of a 10 M page index holds 5 k pages: it grows in some 100 us.
constexpr uint32_t kShards = 2048;
constexpr size_t kBatch = 32;  // finds in flight at once: as many as a core has line fill buffers

// Page hashes are uniform, but only in sum: mixing costs two multiplications and makes any set of
// distinct bits do.
IndexSpot spot_of(const Hash128& hash) {
  uint64_t mixed = hash.low ^ (hash.high * 0x9fb21c651e98df25u);
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
  return {mixed};
}

}  // namespace

struct Index::State {
  std::vector<IndexShard> shards = std::vector<IndexShard>(kShards);
  IndexEntries entries;

  IndexShard& shard_of(const IndexSpot& spot) { return shards[spot.shard_bits() % kShards]; }
  const IndexShard& shard_of(const IndexSpot& spot) const {
    return shards[spot.shard_bits() % kShards];
  }
  EntryId find(const IndexSpot& spot, const Hash128& hash) const {
    return shard_of(spot).find(spot, [&](EntryId id) { return entries[id].hash == hash; });
  }
  // The first id that may be it; all of those in the first line are on their way to the cache.
  EntryId guess(const IndexSpot& spot) const {
    const IndexLine* const line = shard_of(spot).first_line(spot);
    if (line == nullptr) return kNoEntry;
    uint32_t same = line->with(spot.tag());
    if (same == 0) return line->passed == 0 ? kNoEntry : find_tag(spot);
    const EntryId first = line->ids[std::countr_zero(same)];
    for (; same != 0; same &= same - 1) entries.prefetch(line->ids[std::countr_zero(same)]);
    return first;
  }
  // Beyond the first line: any id with the tag.
  EntryId find_tag(const IndexSpot& spot) const {
    return shard_of(spot).find(spot, [&](EntryId id) {
      entries.prefetch(id);
      return true;
    });
  }
  void grow(IndexShard& shard, uint32_t lines) {
    shard.grow(
        lines, [this](EntryId id) { return spot_of(entries[id].hash); },
        [this](EntryId id) { entries.prefetch(id); });
  }
};

Index::Index() : state_(std::make_unique<State>()) {}
Index::~Index() = default;

EntryId Index::find(const Hash128& hash) const { return state_->find(spot_of(hash), hash); }

void Index::find(std::span<const Hash128> hashes, std::span<EntryId> out) const {
  KV_CHECK(out.size() >= hashes.size());
  const State& s = *state_;
  IndexSpot spots[kBatch];
  for (size_t begin = 0; begin < hashes.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, hashes.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      spots[i] = spot_of(hashes[begin + i]);
      s.shard_of(spots[i]).prefetch(spots[i].place());
    }
    for (size_t i = 0; i < count; ++i) out[begin + i] = s.guess(spots[i]);
    for (size_t i = 0; i < count; ++i) {
      EntryId& id = out[begin + i];
      const Hash128& hash = hashes[begin + i];
      if (id != kNoEntry && s.entries[id].hash != hash) id = s.find(spots[i], hash);
    }
  }
}

EntryId Index::insert(const Hash128& hash) {
  const IndexSpot spot = spot_of(hash);
  IndexShard& shard = state_->shard_of(spot);
  KV_CHECK(state_->find(spot, hash) == kNoEntry);
  if (shard.full()) state_->grow(shard, shard.lines_after_growth());
  const EntryId id = state_->entries.take();
  state_->entries[id] = PageEntry{.hash = hash};
  shard.insert(spot, id);
  return id;
}

void Index::erase(EntryId id) {
  const IndexSpot spot = spot_of(state_->entries[id].hash);
  state_->shard_of(spot).erase(spot, id);
  state_->entries.give_back(id);
}

PageEntry& Index::operator[](EntryId id) { return state_->entries[id]; }
const PageEntry& Index::operator[](EntryId id) const { return state_->entries[id]; }

uint64_t Index::size() const { return state_->entries.taken(); }

uint64_t Index::memory_bytes() const {
  uint64_t bytes = sizeof(State) + state_->entries.memory_bytes();
  for (const IndexShard& shard : state_->shards) bytes += sizeof shard + shard.memory_bytes();
  return bytes;
}

void Index::reserve(uint64_t pages) {
  // Shards fill unevenly: a few standard deviations above the mean spare them the last growth.
  const uint64_t mean = pages / kShards + 1;
  uint64_t slack = 1;
  while (slack * slack < mean) ++slack;
  const uint32_t lines = IndexShard::lines_for(mean + 3 * slack);
  for (IndexShard& shard : state_->shards)
    if (lines > shard.lines()) state_->grow(shard, lines);
}

}  // namespace kvsidecar
