// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/span_map.h"

#include <algorithm>

#include "ipc/result.h"

namespace kvsidecar {

void SpanMap::add_chunk(uint32_t spans) {
  const uint32_t first = this->spans();
  chunk_of_.resize(first + spans, static_cast<uint32_t>(chunks_.size()));
  empty_.resize(first + spans, false);
  chunks_.push_back({first, spans, 0});
  longest_chunk_ = std::max(longest_chunk_, spans);
}

void SpanMap::give(uint32_t first, uint32_t spans) {
  for (uint32_t span = first; span < first + spans; ++span) {
    KV_CHECK(!empty_[span]);
    empty_[span] = true;
  }
  empty_count_ += spans;
  measure(chunks_[chunk_of_[first]]);
}

SpanMap::Run SpanMap::take(uint32_t wanted, uint32_t least) {
  if (empty_count_ < least || least == 0) return {};
  Chunk* best = nullptr;
  for (Chunk& chunk : chunks_) {
    if (chunk.longest < least) continue;
    if (best == nullptr || chunk.longest > best->longest) best = &chunk;
    if (chunk.longest >= wanted) break;
  }
  if (best == nullptr) return {};

  const uint32_t spans = std::min(wanted, best->longest);
  uint32_t adjacent = 0;
  for (uint32_t i = 0; i < best->spans; ++i) {
    const bool from_low_end = spans == 1;
    const uint32_t span = best->first + (from_low_end ? i : best->spans - 1 - i);
    adjacent = empty_[span] ? adjacent + 1 : 0;
    if (adjacent < spans) continue;
    for (uint32_t taken = span; taken < span + spans; ++taken) empty_[taken] = false;
    empty_count_ -= spans;
    measure(*best);
    return {span, spans};
  }
  KV_CHECK(adjacent >= spans);  // measure() found them
  return {};
}

void SpanMap::take_span(uint32_t span) {
  KV_CHECK(empty_[span]);
  empty_[span] = false;
  --empty_count_;
  measure(chunks_[chunk_of_[span]]);
}

void SpanMap::measure(Chunk& chunk) {
  uint32_t adjacent = 0;
  chunk.longest = 0;
  for (uint32_t span = chunk.first; span < chunk.first + chunk.spans; ++span) {
    adjacent = empty_[span] ? adjacent + 1 : 0;
    chunk.longest = std::max(chunk.longest, adjacent);
  }
}

}  // namespace kvsidecar
