// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_table.h"

#include "ipc/result.h"

namespace kvsidecar {

SegmentTable::SegmentTable(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

uint32_t SegmentTable::number(uint64_t segment) {
  const auto [at, made] = numbers_.try_emplace(segment, 0);
  if (!made) return at->second;
  if (free_numbers_.empty()) {
    free_numbers_.push_back(static_cast<uint32_t>(segments_.size()));
    segments_.emplace_back();
  }
  at->second = free_numbers_.back();
  free_numbers_.pop_back();
  segments_[at->second] = Segment{};
  segments_[at->second].id = segment;
  return at->second;
}

uint64_t SegmentTable::segment(uint32_t number) const {
  KV_CHECK(number < segments_.size());
  return segments_[number].id;
}

void SegmentTable::add(StoreLocation location, EntryId entry, uint64_t bytes) {
  Segment& s = segments_[number(location.segment)];
  if (s.entries.size() <= location.slot) {
    // A vector doubles by itself, which costs as much again as the entries do.
    const size_t wanted = size_t{location.slot} + 1;
    if (s.entries.capacity() < wanted) s.entries.reserve(wanted + wanted / 8);
    s.entries.resize(wanted, kNoEntry);
  }
  if (s.entries[location.slot] == kNoEntry) ++s.live;
  s.entries[location.slot] = entry;
  s.bytes += bytes;
  used_bytes_ += bytes;
}

void SegmentTable::remove(uint32_t number, uint32_t slot) {
  KV_CHECK(number < segments_.size());
  // The bytes come back only when the whole segment is unlinked.
  Segment& s = segments_[number];
  if (slot >= s.entries.size() || s.entries[slot] == kNoEntry) return;
  s.entries[slot] = kNoEntry;
  if (--s.live == 0) emptied_.push_back(number);
}

void SegmentTable::set_bytes(uint32_t number, uint64_t bytes) {
  KV_CHECK(number < segments_.size());
  used_bytes_ += bytes - segments_[number].bytes;
  segments_[number].bytes = bytes;
}

uint32_t SegmentTable::dead(const std::function<bool(uint64_t segment)>& keep) {
  for (size_t i = emptied_.size(); i-- > 0;) {
    const uint32_t number = emptied_[i];
    const Segment& s = segments_[number];
    const bool empty = s.id != 0 && s.live == 0;
    if (empty && (s.open || keep(s.id))) continue;
    emptied_[i] = emptied_.back();
    emptied_.pop_back();
    if (empty) return number;
  }
  return kNowhere;
}

void SegmentTable::touch(uint32_t number) {
  KV_CHECK(number < segments_.size());
  segments_[number].touched = true;
}

void SegmentTable::set_open(uint64_t segment, bool open) {
  const auto known = numbers_.find(segment);
  if (known != numbers_.end()) segments_[known->second].open = open;
}

bool SegmentTable::over_capacity() const { return used_bytes_ > capacity_bytes_; }

uint32_t SegmentTable::victim() {
  // Two rounds: the first may only clear the touched marks.
  for (size_t passed = 0; passed < 2 * segments_.size(); ++passed) {
    if (hand_ >= segments_.size()) hand_ = 0;
    const size_t at = hand_++;
    Segment& s = segments_[at];
    if (s.id == 0 || s.gone || s.open) continue;
    if (!s.touched) return static_cast<uint32_t>(at);
    s.touched = false;
  }
  return kNowhere;
}

const std::vector<EntryId>& SegmentTable::entries(uint32_t number) const {
  KV_CHECK(number < segments_.size());
  return segments_[number].entries;
}

void SegmentTable::erase(uint32_t number) {
  KV_CHECK(number < segments_.size() && segments_[number].id != 0);
  Segment& s = segments_[number];
  used_bytes_ -= s.bytes;
  numbers_.erase(s.id);
  s = Segment{};
  s.gone = true;
  free_numbers_.push_back(number);
}

}  // namespace kvsidecar
