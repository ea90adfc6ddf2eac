// SPDX-License-Identifier: Apache-2.0
// The common list: which spans of which chunk are empty. Spans are numbered through all chunks;
// runs of adjacent spans never cross a chunk. Pure; one owner.
#pragma once
#include <cstdint>
#include <vector>

namespace kvsidecar {

class SpanMap {
 public:
  struct Run {
    uint32_t first = 0;
    uint32_t spans = 0;  // 0 = none
  };
  struct Chunk {
    uint32_t first = 0, spans = 0;
    uint32_t longest = 0;  // adjacent empty spans
  };

  void add_chunk(uint32_t spans);  // none of them empty yet
  void give(uint32_t first, uint32_t spans);
  // `wanted` adjacent spans, else as many as there are but at least `least`. Single spans come from
  // a chunk's low end and runs from its high end, so that single ones don't cut up the room for
  // runs.
  Run take(uint32_t wanted, uint32_t least);
  void take_span(uint32_t span);  // this one, which must be empty

  bool is_empty(uint32_t span) const { return empty_[span]; }
  uint32_t empty() const { return empty_count_; }
  uint32_t spans() const { return static_cast<uint32_t>(empty_.size()); }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  const Chunk& chunk_of(uint32_t span) const { return chunks_[chunk_of_[span]]; }
  uint32_t longest_chunk() const { return longest_chunk_; }

 private:
  void measure(Chunk& chunk);

  std::vector<bool> empty_;
  std::vector<uint32_t> chunk_of_;
  std::vector<Chunk> chunks_;
  uint32_t empty_count_ = 0;
  uint32_t longest_chunk_ = 0;
};

}  // namespace kvsidecar
