// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/index.h"

#include <algorithm>
#include <vector>

#include "sidecar/index/index_entries.h"
#include "sidecar/index/index_shard.h"

namespace kvsidecar {
namespace {

// A shard of a 10 M page index holds 10 k pages: its rehash streams through 100 KB.
constexpr uint32_t kShards = 1024;
constexpr size_t kBatch = 32;  // lookups in flight at once: as many as a core has line fill buffers

struct Spot {
  uint32_t shard;
  uint32_t tag;
};

// Page hashes are uniform, but only in sum: mixing costs two multiplications and makes any set of
// distinct bits do.
Spot spot_of(const Hash128& hash) {
  uint64_t mixed = hash.low ^ (hash.high * 0x9fb21c651e98df25u);
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
  return {static_cast<uint32_t>(mixed % kShards), static_cast<uint32_t>(mixed >> 32)};
}

}  // namespace

struct Index::State {
  std::vector<IndexShard> shards = std::vector<IndexShard>(kShards);
  IndexEntries entries;

  // The first bucket from `at` on with this tag and this very page; kNoEntry = absent.
  EntryId match(const IndexShard& shard, uint32_t at, uint32_t tag, const Hash128& hash) const {
    for (;; ++at) {
      const EntryId id = shard.next(at, tag);
      if (id == kNoEntry || entries[id].hash == hash) return id;
    }
  }
};

Index::Index() : state_(std::make_unique<State>()) {}
Index::~Index() = default;

EntryId Index::find(const Hash128& hash) const {
  const Spot spot = spot_of(hash);
  const IndexShard& shard = state_->shards[spot.shard];
  return state_->match(shard, shard.home(spot.tag), spot.tag, hash);
}

void Index::find(std::span<const Hash128> hashes, std::span<EntryId> out) const {
  KV_CHECK(out.size() >= hashes.size());
  Spot spots[kBatch];
  uint32_t at[kBatch];
  for (size_t begin = 0; begin < hashes.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, hashes.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      spots[i] = spot_of(hashes[begin + i]);
      const IndexShard& shard = state_->shards[spots[i].shard];
      at[i] = shard.home(spots[i].tag);
      shard.prefetch(at[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      const EntryId id = state_->shards[spots[i].shard].next(at[i], spots[i].tag);
      out[begin + i] = id;
      if (id != kNoEntry) state_->entries.prefetch(id);
    }
    for (size_t i = 0; i < count; ++i) {
      const EntryId id = out[begin + i];
      const Hash128& hash = hashes[begin + i];
      if (id == kNoEntry || state_->entries[id].hash == hash) continue;
      out[begin + i] = state_->match(state_->shards[spots[i].shard], at[i] + 1, spots[i].tag, hash);
    }
  }
}

EntryId Index::insert(const Hash128& hash) {
  const Spot spot = spot_of(hash);
  IndexShard& shard = state_->shards[spot.shard];
  KV_CHECK(state_->match(shard, shard.home(spot.tag), spot.tag, hash) == kNoEntry);
  const EntryId id = state_->entries.take();
  state_->entries[id] = PageEntry{.hash = hash};
  shard.insert(spot.tag, id);
  return id;
}

void Index::erase(EntryId id) {
  const Spot spot = spot_of(state_->entries[id].hash);
  state_->shards[spot.shard].erase(spot.tag, id);
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
  // Shards fill unevenly: a few standard deviations above the mean spare them the last rehash.
  const uint64_t mean = pages / kShards + 1;
  uint64_t slack = 1;
  while (slack * slack < mean) ++slack;
  for (IndexShard& shard : state_->shards) shard.reserve(mean + 3 * slack);
}

}  // namespace kvsidecar
