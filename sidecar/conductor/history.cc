// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/history.h"

namespace kvsidecar {

std::string_view departure_text(Departure why) {
  switch (why) {
    case Departure::kNone:
      return "never seen here, or too long ago";
    case Departure::kEvicted:
      return "evicted from the host pool, its store copy went later";
    case Departure::kEvictedUnwritten:
      return "evicted from the host pool before it was written to the store";
    case Departure::kWriteDropped:
      return "its write was dropped: the write-behind queue was full";
    case Departure::kWriteFailed:
      return "the store could not write it";
    case Departure::kSegmentUnlinked:
      return "its segment was unlinked for space";
    case Departure::kCorrupt:
      return "its bytes did not prove themselves";
    case Departure::kDeleted:
      return "deleted by request";
    case Departure::kPartsTimeout:
      return "its other parts did not come in time";
    case Departure::kPartsGaveWay:
      return "its other parts had not come when room was needed";
    case Departure::kReadFailed:
      return "the store could not read it";
    case Departure::kNoRoom:
      return "no host slot could be freed for it";
  }
  return "?";
}

History::Event History::find(const Hash128& page) const {
  const uint64_t count = next_ < events_.size() ? next_ : events_.size();
  for (uint64_t back = 1; back <= count; ++back) {
    const Event& event = events_[(next_ - back) % events_.size()];
    if (event.page == page.low) return event;
  }
  return {};
}

}  // namespace kvsidecar
