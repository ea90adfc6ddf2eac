// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/copy_batch.h"

#include <algorithm>

#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

struct RunPlace {
  Region* region;
  uint64_t offset, bytes;
};

size_t run_count(const CopyItem& item) {
  return item.layout != nullptr ? item.layout->runs.size() : item.pieces.size();
}

RunPlace run_place(const CopyItem& item, size_t run) {
  if (item.layout == nullptr) {
    const Piece& piece = item.pieces[run];
    return {piece.region, piece.offset, piece.bytes};
  }
  const BlockLayout::Run& in_layout = item.layout->runs[run];
  return {in_layout.region, in_layout.base + item.block * in_layout.block_stride,
          in_layout.run_length};
}

// Checked by the conductor when the request came in.
void check_item(const CopyItem& item) {
  uint64_t bytes = 0;
  if (item.layout != nullptr) {
    KV_CHECK(item.block < item.layout->blocks);
    bytes = item.layout->part_bytes;
  } else {
    for (const Piece& piece : item.pieces) bytes += piece.bytes;
  }
  KV_CHECK(bytes == item.bytes);
}

}  // namespace

RunningCommand::RunningCommand(const CopyCommand& command, bool hashing)
    : command_(command),
      hashing_(hashing && command.kind == CopyKind::kPut),
      items_(command.count) {
  for (uint32_t i = 0; i < command.count; ++i) {
    const CopyItem& item = command.items[i];
    check_item(item);
    if (command.kind == CopyKind::kGetLayered)
      KV_CHECK(item.layout != nullptr && run_count(item) == run_count(command.items[0]));
  }
}

Direction RunningCommand::direction() const {
  return command_.kind == CopyKind::kPut ? Direction::kStore : Direction::kLoad;
}

std::span<uint64_t> RunningCommand::leaves() {
  if (!hashing_) return {};
  return std::span(leaves_).subspan(first_leaf_, leaf_count(batch_bytes_));
}

bool RunningCommand::next_batch(uint64_t now_ns) {
  pieces_.clear();
  batch_bytes_ = 0;
  ends_layer_ = false;
  first_item_ = end_item_ = item_;
  if (command_.count == 0) return false;
  return command_.kind == CopyKind::kGetLayered ? next_layer_batch(now_ns)
                                                : next_plain_batch(now_ns);
}

bool RunningCommand::next_plain_batch(uint64_t now_ns) {
  while (item_ < command_.count && fits_more()) {
    if (!may_copy(item_, now_ns)) {
      next_item();
      continue;
    }
    if (hashing_) {
      first_leaf_ = items_[item_].done_bytes / kLeafBytes;
      leaves_.resize(leaf_count(command_.items[item_].bytes));
    }
    end_item_ = item_ + 1;
    const size_t runs = run_count(command_.items[item_]);
    while (run_ < runs && batch_bytes_ < kBatchBytes)
      if (add_run(item_)) ++run_;
    if (run_ == runs) next_item();
    if (hashing_) break;
  }
  return end_item_ > first_item_;
}

// Ends at the end of a layer, so that each layer is announced as soon as it is there.
bool RunningCommand::next_layer_batch(uint64_t now_ns) {
  if (run_ == run_count(command_.items[0])) return false;
  for (; item_ < command_.count && fits_more(); end_item_ = item_ + 1) {
    if (!may_copy(item_, now_ns)) {
      into_run_ = 0;
      ++item_;
      continue;
    }
    if (!add_run(item_)) {
      end_item_ = item_ + 1;
      break;
    }
    ++item_;
  }
  if (copying_ == 0 && !whole_) return false;  // no item is left to go on with
  if (item_ == command_.count) {
    ends_layer_ = true;
    end_item_ = command_.count;
    item_ = 0;
    ++run_;
  }
  return true;
}

// Whether the item's next bytes may be copied: claims it at its first.
bool RunningCommand::may_copy(uint32_t index, uint64_t now_ns) {
  CopyItem& item = command_.items[index];
  switch (items_[index].step) {
    case Step::kSettled:
      return false;
    case Step::kCopying:
      // Spares the bytes only: what decides is the move to DONE.
      if (command_.kind == CopyKind::kPut && item.claim &&
          item.claim.state() != ClaimState::kCopying) {
        --copying_;
        lose(index, Code::kAbandoned);
        return false;
      }
      return true;
    case Step::kWaiting:
      break;
  }
  if (!claim(item, now_ns)) {
    lose(index, item.status);
    return false;
  }
  items_[index].step = Step::kCopying;
  ++copying_;
  return true;
}

bool RunningCommand::claim(CopyItem& item, uint64_t now_ns) {
  const bool late = item.deadline_ns != 0 && now_ns >= item.deadline_ns;
  if (!item.claim) {
    item.status = Code::kTimeout;
    return !late;
  }
  if (!late && item.claim.move(ClaimState::kQueued, ClaimState::kCopying)) return true;
  if (planted(Bug::kGetAfterRevoke) && command_.kind != CopyKind::kPut && !late) return true;
  const bool revoked_here = late && item.claim.move(ClaimState::kQueued, ClaimState::kRevoked);
  item.status = revoked_here ? Code::kTimeout : Code::kRevoked;
  return false;
}

void RunningCommand::lose(uint32_t index, Code status) {
  command_.items[index].status = status;
  items_[index].step = Step::kSettled;
  whole_ = false;
}

void RunningCommand::next_item() {
  ++item_;
  run_ = 0;
  into_run_ = 0;
}

// Adds what fits of the item's current run. True when that was the rest of it.
bool RunningCommand::add_run(uint32_t index) {
  CopyItem& item = command_.items[index];
  Progress& progress = items_[index];
  const RunPlace place = run_place(item, run_);
  const uint64_t bytes = std::min(place.bytes - into_run_, kBatchBytes - batch_bytes_);
  if (bytes > 0)
    add(item.host + progress.done_bytes, place.region, place.offset + into_run_, bytes);
  progress.done_bytes += bytes;
  into_run_ += bytes;
  if (into_run_ < place.bytes) return false;
  into_run_ = 0;
  return true;
}

void RunningCommand::add(std::byte* host, Region* region, uint64_t offset, uint64_t bytes) {
  batch_bytes_ += bytes;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.region == region && last.offset + last.bytes == offset &&
        last.host + last.bytes == host) {
      last.bytes += bytes;
      return;
    }
  }
  pieces_.push_back({host, region, offset, bytes});
}

void RunningCommand::settle(Code outcome) {
  if (ends_layer_ && outcome == Code::kOk && whole_ && command_.progress != nullptr)
    command_.progress->store(run_, std::memory_order_release);
  for (uint32_t i = first_item_; i < end_item_; ++i) {
    if (items_[i].step != Step::kCopying) continue;
    if (outcome != Code::kOk)
      fail(i, outcome);
    else if (items_[i].done_bytes == command_.items[i].bytes)
      finish(i);
  }
}

void RunningCommand::finish(uint32_t index) {
  CopyItem& item = command_.items[index];
  items_[index].step = Step::kSettled;
  --copying_;
  item.status = Code::kOk;
  const uint64_t seed = planted(Bug::kStaleDigest) ? command_.items[0].seed : item.seed;
  if (hashing_) item.digest = part_digest(item.bytes, leaves_, seed);
  if (!item.claim) return;
  const bool counts = item.claim.move(ClaimState::kCopying, ClaimState::kDone);
  if (!counts && command_.kind == CopyKind::kPut && !planted(Bug::kPutAfterAbandon))
    item.status = Code::kAbandoned;
}

void RunningCommand::fail(uint32_t index, Code outcome) {
  CopyItem& item = command_.items[index];
  --copying_;
  lose(index, outcome);
  if (item.claim) (void)item.claim.move(ClaimState::kCopying, ClaimState::kFailed);
}

}  // namespace kvsidecar
