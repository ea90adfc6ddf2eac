// SPDX-License-Identifier: Apache-2.0
// Why pages went: a ring of the last departures, so that `kvsidecar why KEY` can answer for a page
// that is not there. Conductor's thread only.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "ipc/identity.h"

namespace kvsidecar {

enum class Departure : uint8_t {
  kNone,
  kEvicted,
  kEvictedUnwritten,
  kWriteDropped,
  kWriteFailed,
  kSegmentUnlinked,
  kCorrupt,
  kDeleted,
  kPartsTimeout,
  kPartsGaveWay,
  kReadFailed,
  kNoRoom,
};
std::string_view departure_text(Departure why);

class History {
 public:
  struct Event {
    uint64_t page = 0;  // low 64 bits of the page hash
    uint64_t at_ns = 0;
    Departure why = Departure::kNone;
  };
  void add(const Hash128& page, Departure why, uint64_t now_ns) {
    events_[next_++ % events_.size()] = Event{page.low, now_ns, why};
  }
  // The latest departure of the page, or kNone.
  Event find(const Hash128& page) const;

 private:
  std::array<Event, 16384> events_{};
  uint64_t next_ = 0;
};

}  // namespace kvsidecar
