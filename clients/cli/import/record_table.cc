// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/record_table.h"

#include <algorithm>
#include <tuple>

namespace kvsidecar {

// Why the records [first, end) of one page don't make one; empty: they do.
std::string RecordTable::objection(size_t first, size_t end,
                                   const std::vector<PlaceMap>& places) const {
  for (size_t i = first; i < end; ++i) {
    const Record& record = records_[i];
    if ((record.half == Half::kWhole) == halves_)
      return "its record is of another layout than the namespace";
    if (const char* why = places[record.source].objection(record.index)) return why;
    if (i > first && records_[i - 1].part == record.part && records_[i - 1].half == record.half)
      return "its key stands twice";
  }
  if (end - first == records_of_page()) return "";
  size_t parts = 1;
  for (size_t i = first + 1; i < end; ++i) parts += records_[i].part != records_[i - 1].part;
  return parts < parts_ ? "not all ranks have it" : "it has K or V, not both";
}

std::vector<ImportPage> RecordTable::pages(const std::vector<PlaceMap>& places) {
  std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) {
    return std::tie(a.hash, a.part, a.half, a.order) < std::tie(b.hash, b.part, b.half, b.order);
  });
  std::vector<ImportPage> pages;
  for (size_t first = 0, end = 0; first < records_.size(); first = end) {
    uint32_t order = 0;
    for (end = first; end < records_.size() && records_[end].hash == records_[first].hash; ++end)
      order = std::max(order, records_[end].order);
    const std::string why = objection(first, end, places);
    if (why.empty()) {
      pages.push_back({order, first});
    } else {
      ++left_out_[why];
    }
  }
  std::sort(pages.begin(), pages.end(), [](const ImportPage& a, const ImportPage& b) {
    return std::tie(a.order, a.first) < std::tie(b.order, b.first);
  });
  return pages;
}

}  // namespace kvsidecar
