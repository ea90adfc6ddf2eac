// SPDX-License-Identifier: Apache-2.0
// What the metadata says of the records of one namespace, and the pages that they make. Nothing in
// that file proves a page, so a record counts only while nothing speaks against it. Memory: 56
// bytes a record, and three bits for each record that a data file has room for. Pure; one thread.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "clients/cli/import/record_key.h"

namespace kvsidecar {

// Pages by the reason for which they aren't imported; the reasons are sentences.
using LeftOut = std::map<std::string, uint64_t>;

// Which places of a data file are taken, by whom.
class PlaceMap {
 public:
  explicit PlaceMap(uint64_t places)
      : places_(places), claimed_(places), claimed_twice_(places), free_(places) {}
  void claim(uint64_t index) {
    if (index >= places_) return;
    if (claimed_[index]) claimed_twice_[index] = true;
    claimed_[index] = true;
  }
  void release(uint64_t index) {
    if (index < places_) free_[index] = true;
  }
  uint64_t places() const { return places_; }
  // Null: nothing speaks against the record there.
  const char* objection(uint64_t index) const {
    if (index >= places_) return "its index is past the end of the data file";
    if (claimed_twice_[index]) return "its index is claimed by two records";
    return free_[index] ? "its index is also free" : nullptr;
  }

 private:
  uint64_t places_;
  std::vector<bool> claimed_, claimed_twice_, free_;
};

struct Record {
  PageKey hash;
  uint64_t index = 0;
  uint32_t order = 0;   // in the metadata: oldest first
  uint32_t source = 0;  // of the data files
  uint16_t part = 0;
  Half half = Half::kWhole;
};

// A page all of whose records are there: in the order of parts, K before V, from `first` on.
struct ImportPage {
  uint32_t order = 0;
  size_t first = 0;
};

class RecordTable {
 public:
  RecordTable(uint16_t parts, bool halves) : parts_(parts), halves_(halves) {}
  bool halves() const { return halves_; }
  size_t records_of_page() const { return size_t{parts_} * (halves_ ? 2 : 1); }
  void add(const Record& record) { records_.push_back(record); }
  // For names that aren't a page's.
  void leave_out(const std::string& why) { ++left_out_[why]; }

  // The pages, oldest first, once all records are added. places: of each source.
  std::vector<ImportPage> pages(const std::vector<PlaceMap>& places);
  const Record& record(size_t number) const { return records_[number]; }
  const LeftOut& left_out() const { return left_out_; }

 private:
  std::string objection(size_t first, size_t end, const std::vector<PlaceMap>& places) const;
  uint16_t parts_;
  bool halves_;
  std::vector<Record> records_;
  LeftOut left_out_;
};

}  // namespace kvsidecar
