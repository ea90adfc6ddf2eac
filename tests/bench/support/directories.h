// SPDX-License-Identifier: Apache-2.0
// Segment files with full directories and no data behind them: as much to read at a start as a
// large store has, in little space. Blocking; one thread.
#pragma once
#include <functional>
#include <string>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {

// Writes as many segments as `pages` entries need into `folder`. They are like `like`, numbered
// from `first` on; page n has the hash hash_of(n). A page that is read is zeros: a miss.
void make_directories(const std::string& folder, const Superblock& like, uint64_t first,
                      uint64_t pages, const std::function<Hash128(uint64_t)>& hash_of);

}  // namespace kvsidecar
