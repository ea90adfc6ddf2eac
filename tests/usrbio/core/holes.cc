// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/holes.h"

#include <cerrno>

namespace kvsidecar::fake3fs {

FoldedRead HoleFolder::fold(std::span<const ReadPiece> pieces) {
  FoldedRead read;
  if (!folded_) hole_ = 0;
  bool first = true;
  for (const ReadPiece& piece : pieces) {
    if (piece.got == 0) {
      hole_ += piece.wanted;
    } else {
      if (first) hole_ = 0;
      if (hole_ > 0) read.inner_hole = true;
      read.result += static_cast<int64_t>(hole_ + piece.got);
      hole_ = piece.wanted - piece.got;
    }
    first = false;
  }
  if (read.inner_hole && forbid_holes_) read.result = -ENODATA;
  return read;
}

}  // namespace kvsidecar::fake3fs
