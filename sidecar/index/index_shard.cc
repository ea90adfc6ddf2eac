// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/index_shard.h"

namespace kvsidecar {

void IndexShard::insert(const IndexSpot& spot, EntryId id) {
  KV_CHECK(size_ < uint64_t{lines_all_} * IndexLine::kIds);
  uint32_t at = home(spot.place());
  while (lines_[at].used == IndexLine::kIds) {
    KV_CHECK(lines_[at].passed < (1u << 24) - 1);  // far above what one shard holds
    ++lines_[at].passed;
    at = next(at);
  }
  IndexLine& line = lines_[at];
  line.tags[line.used] = spot.tag();
  line.ids[line.used] = id;
  ++line.used;
  ++size_;
}

void IndexShard::erase(const IndexSpot& spot, EntryId id) {
  KV_CHECK(lines_all_ != 0);
  for (uint32_t at = home(spot.place());; at = next(at)) {
    IndexLine& line = lines_[at];
    for (uint32_t same = line.with(spot.tag()); same != 0; same &= same - 1) {
      const auto found = static_cast<uint32_t>(std::countr_zero(same));
      if (line.ids[found] != id) continue;
      --line.used;
      line.tags[found] = line.tags[line.used];
      line.ids[found] = line.ids[line.used];
      --size_;
      return;
    }
    KV_CHECK(line.passed > 0);
    --line.passed;
  }
}

}  // namespace kvsidecar
