// SPDX-License-Identifier: Apache-2.0
// From what the chunks answered to what each read of a job returns. A hole that stored bytes follow
// within the read counts and is to be filled with zeros; a hole at its end does not count.
//
// The real daemon has a fault here: it doesn't forget a hole in which a read ended. When the next
// read of the job begins with a missing chunk and has stored bytes later, the old hole is added to
// its count, which can then be larger than asked, or say exactly "all" although its end was never
// read. `folded` = reproduce that. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tests/usrbio/core/chunk_map.h"

namespace kvsidecar::fake3fs {

struct FoldedRead {
  int64_t result = 0;       // bytes, or -ENODATA where holes are forbidden
  bool inner_hole = false;  // stored bytes came after a hole
};

class HoleFolder {
 public:
  HoleFolder(bool folded, bool forbid_holes) : folded_(folded), forbid_holes_(forbid_holes) {}
  // Once for each read of a job, in order.
  FoldedRead fold(std::span<const ReadPiece> pieces);

 private:
  const bool folded_, forbid_holes_;
  uint64_t hole_ = 0;
};

}  // namespace kvsidecar::fake3fs
