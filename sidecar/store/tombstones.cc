// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/tombstones.h"

#include <algorithm>
#include <cstring>

namespace kvsidecar {
namespace {
constexpr uint32_t kCarrierEntries = 1024;
}

Tombstones::Tombstones(StoreParts& parts) : parts_(parts) {}

void Tombstones::add(StoreLocation page, const Hash128& hash, bool durable,
                     std::function<void(Code status)> done) {
  waiting_.push_back({page, hash, durable, std::move(done)});
}

void Tombstones::found_carrier(uint64_t carrier) { live_in_carrier_.try_emplace(carrier, 0); }

void Tombstones::found(uint64_t carrier, StoreLocation page, const Hash128& hash) {
  if (covers(page)) return;  // carried on already, and the old carrier is not gone yet
  by_target_[page.segment].push_back({page.slot, hash, carrier});
  ++live_in_carrier_[carrier];
}

bool Tombstones::covers(StoreLocation page) const {
  const auto at = by_target_.find(page.segment);
  return at != by_target_.end() &&
         std::any_of(at->second.begin(), at->second.end(),
                     [&](const Tombstone& t) { return t.slot == page.slot; });
}

void Tombstones::target_unlinked(uint64_t segment) {
  const auto at = by_target_.find(segment);
  if (at == by_target_.end()) return;
  const auto gone = std::move(at->second);
  by_target_.erase(at);
  for (const Tombstone& t : gone) drop_from_carrier(t.carrier);
}

void Tombstones::forget_targets_but(const std::function<bool(uint64_t)>& exists) {
  std::vector<uint64_t> gone;
  for (const auto& [target, list] : by_target_)
    if (!exists(target)) gone.push_back(target);
  for (uint64_t target : gone) target_unlinked(target);
  std::vector<uint64_t> carriers;
  for (const auto& [carrier, live] : live_in_carrier_) carriers.push_back(carrier);
  for (uint64_t carrier : carriers) unlink_if_empty(carrier);
}

void Tombstones::drop_from_carrier(uint64_t carrier) {
  const auto at = live_in_carrier_.find(carrier);
  if (at == live_in_carrier_.end()) return;
  if (at->second > 0) --at->second;
  unlink_if_empty(carrier);
}

void Tombstones::unlink_if_empty(uint64_t carrier) {
  const auto at = live_in_carrier_.find(carrier);
  if (at == live_in_carrier_.end() || at->second > 0) return;
  const auto writes = [&](const auto& s) { return s != nullptr && s->file()->id == carrier; };
  // The one being written may get more; those being closed come back here when they are.
  if (writes(current_) || std::any_of(sealed_.begin(), sealed_.end(), writes)) return;
  live_in_carrier_.erase(at);
  parts_.files->unlink(carrier, [](int) {});
}

void Tombstones::carry_on() {
  std::vector<uint64_t> old;
  for (const auto& [carrier, live] : live_in_carrier_)
    if (carrier >> 32 != parts_.epoch) old.push_back(carrier);
  // One old carrier may stay as it is: carrying it on would only move it.
  if (old.size() < 2) return;
  for (uint64_t carrier : old) unlink_carrier(carrier, [](int) {});
}

void Tombstones::unlink_carrier(uint64_t carrier, std::function<void(int error)> done) {
  struct Carrying {
    size_t left = 0;
    bool failed = false;
    std::function<void(int)> done;
  };
  auto carrying = std::make_shared<Carrying>();
  carrying->done = std::move(done);
  std::vector<std::pair<StoreLocation, Hash128>> live;
  for (const auto& [target, list] : by_target_)
    for (const Tombstone& t : list)
      if (t.carrier == carrier) live.push_back({{target, t.slot}, t.hash});
  if (current_ != nullptr && current_->file()->id == carrier) seal();
  const auto finish = [this, carrier, carrying] {
    if (carrying->failed) return carrying->done(EIO);
    live_in_carrier_.erase(carrier);
    if (parts_.files->find(carrier) == nullptr) return carrying->done(0);
    parts_.files->unlink(carrier, carrying->done);
  };
  carrying->left = live.size();
  if (live.empty()) return finish();
  for (const auto& [page, hash] : live) {
    add(page, hash, true, [carrying, finish](Code status) {
      if (status != Code::kOk) carrying->failed = true;
      if (--carrying->left == 0) finish();
    });
  }
}

void Tombstones::append(Waiting waiting) {
  auto shared = std::make_shared<Waiting>(std::move(waiting));
  current_->take(1, 0);
  DirectoryEntry entry;
  entry.kind = EntryKind::kTombstone;
  entry.hash = shared->hash;
  entry.segment = shared->page.segment;
  entry.slot = shared->page.slot;
  current_->appended(entry, shared->durable,
                     [this, shared, carrier = current_->file()->id](Code status, uint32_t) {
                       if (status == Code::kOk) {
                         auto& list = by_target_[shared->page.segment];
                         const auto same = [&](const Tombstone& t) {
                           return t.slot == shared->page.slot;
                         };
                         for (const Tombstone& t : list)
                           if (same(t)) --live_in_carrier_[t.carrier];
                         std::erase_if(list, same);
                         list.push_back({shared->page.slot, shared->hash, carrier});
                         ++live_in_carrier_[carrier];
                         // The target may have been unlinked while this was written.
                         if (parts_.files->find(shared->page.segment) == nullptr)
                           target_unlinked(shared->page.segment);
                       }
                       shared->done(status);
                     });
}

void Tombstones::turn(uint64_t now_ns, bool closing) {
  size_t taken = 0;
  while (taken < waiting_.size()) {
    if (current_ == nullptr) {
      Superblock superblock;
      superblock.slot_alignment = kSlotUnit;
      superblock.directory_entries = kCarrierEntries;
      const uint64_t bytes = superblock.slots_offset();
      current_ = std::make_shared<OpenSegment>(parts_, std::move(superblock), bytes);
      live_in_carrier_.try_emplace(current_->file()->id, 0);
    }
    if (current_->state() == OpenSegment::State::kOpening) break;
    if (current_->state() == OpenSegment::State::kFailed) {
      parts_.io_ended(true, current_->error());
      live_in_carrier_.erase(current_->file()->id);
      seal();
      auto failed = std::move(waiting_[taken++]);
      failed.done(Code::kIoError);
      break;
    }
    if (!current_->fits(1, 0)) {
      seal();
      continue;
    }
    append(std::move(waiting_[taken++]));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken));
  if (current_ != nullptr) current_->turn(now_ns, closing);
  for (auto& segment : sealed_) segment->turn(now_ns, closing);
  for (size_t i = 0; i < sealed_.size();) {
    if (!sealed_[i]->finished() || !sealed_[i]->idle()) {
      ++i;
      continue;
    }
    const uint64_t carrier = sealed_[i]->file()->id;
    sealed_.erase(sealed_.begin() + static_cast<std::ptrdiff_t>(i));
    unlink_if_empty(carrier);
  }
}

void Tombstones::fail_waiting() {
  for (auto& waiting : std::exchange(waiting_, {})) waiting.done(Code::kIoError);
}

void Tombstones::seal() {
  if (current_ == nullptr) return;
  current_->seal();
  sealed_.push_back(std::move(current_));
}

void Tombstones::sync(const std::function<void(int error)>& each, size_t& calls) {
  if (current_ != nullptr) {
    ++calls;
    current_->sync(each);
  }
  for (auto& segment : sealed_) {
    ++calls;
    segment->sync(each);
  }
}

bool Tombstones::idle() const {
  const auto is_idle = [](const auto& segment) { return segment->idle(); };
  return waiting_.empty() && (current_ == nullptr || is_idle(current_)) &&
         std::all_of(sealed_.begin(), sealed_.end(), is_idle);
}

bool Tombstones::finished() const { return idle() && current_ == nullptr && sealed_.empty(); }

}  // namespace kvsidecar
