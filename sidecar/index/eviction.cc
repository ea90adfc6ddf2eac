// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/eviction.h"

#include <algorithm>
#include <numeric>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kOffersBest = 64;    // by worth, before the sweep
constexpr uint32_t kOffersInCell = 16;  // so that one cell of leased leaves can't use them all up
constexpr uint32_t kSweepMax = 16 * 1024;  // slots passed, most of them free
constexpr uint32_t kAgedLeaves = 64;       // moved on in one cell for one request
constexpr uint32_t kYoungShare = 32;       // the youngest 1/32 of the pages isn't judged yet
constexpr double kYoungWorth = 1e9;

uint32_t tag_of(uint64_t page) {
  page ^= page >> 33;
  page *= 0xFF51AFD7ED558CCDull;
  page ^= page >> 33;
  const uint32_t tag = static_cast<uint32_t>(page >> 16);
  return tag == 0 ? 1 : tag;
}

bool is_last(const PageAccess& a) {
  return a.prompt_pages != 0 && a.position + 1 == a.prompt_pages;
}

}  // namespace

Eviction::Eviction(uint32_t slots_max) : slots_(slots_max), ghosts_(slots_max), model_(slots_max) {
  std::iota(std::begin(cell_at_), std::end(cell_at_), uint16_t{0});
  for (uint32_t c = 0; c < kCells; ++c) {
    cells_[c].age_end = ReuseModel::bucket_floor(c % ReuseModel::kBuckets + 1);
  }
  rank_cells();
}

void Eviction::resize(uint32_t slots_max) {
  if (slots_max <= slots_.size()) return;
  slots_.resize(slots_max);
  ghosts_.resize(slots_max);
  model_.resize(slots_max);
}

void Eviction::inserted(uint32_t slot, const PageAccess& access) {
  KV_CHECK(slot < slots_.size() && slots_[slot].page_class == kFree);
  Slot& s = slots_[slot];
  s.tag = tag_of(access.page);
  s.uses = ghosts_.take(s.tag);
  ++resident_;
  ++inserted_since_;
  used(slot, access, ReuseModel::Kind::kInserted);
}

void Eviction::touched(uint32_t slot, const PageAccess& access) {
  KV_CHECK(slot < slots_.size() && slots_[slot].page_class != kFree);
  Slot& s = slots_[slot];
  if (s.request == static_cast<uint32_t>(access.request)) return;
  if (s.uses < UINT8_MAX) ++s.uses;
  used(slot, access, ReuseModel::Kind::kTouched);
}

void Eviction::missed(const PageAccess& access) {
  advance(access.request);
  const uint32_t tag = tag_of(access.page);
  model_.used(tag, ReuseModel::class_of(ghosts_.miss(tag), is_last(access)),
              static_cast<uint32_t>(access.request), ReuseModel::Kind::kMissed);
  const Link parent = parent_in_request(access);
  if (parent.slot != kNoSlot) pending_[tag % kOpenRequests] = Pending{tag, parent};
  open_[access.request % kOpenRequests] = Open{access.request, access.position, Link{}};
}

// The common part of inserted and touched: class, age, place in the tree.
void Eviction::used(uint32_t slot, const PageAccess& access, ReuseModel::Kind kind) {
  advance(access.request);
  Slot& s = slots_[slot];
  if (s.cell != kNoCell) out_of_cell(slot);
  s.request = static_cast<uint32_t>(access.request);
  s.page_class = ReuseModel::class_of(s.uses, is_last(access));
  model_.used(s.tag, s.page_class, s.request, kind);
  Link parent = parent_in_request(access);
  Pending& pending = pending_[s.tag % kOpenRequests];
  if (pending.tag == s.tag) {
    if (parent.slot == kNoSlot) parent = pending.parent;
    pending = Pending{};
  }
  adopt(slot, parent);
  if (s.children == 0) into_cell(slot, true);
  open_[access.request % kOpenRequests] = Open{access.request, access.position, Link{slot, s.tag}};
}

Eviction::Link Eviction::parent_in_request(const PageAccess& access) const {
  const Open& open = open_[access.request % kOpenRequests];
  if (open.request != access.request || open.position + 1 != access.position) return Link{};
  return open.page;
}

// Only a leaf finds a new parent: so no order of keys that a client may send makes a cycle.
void Eviction::adopt(uint32_t slot, const Link& parent) {
  Slot& s = slots_[slot];
  if (parent.slot == kNoSlot || parent.slot == slot || s.children != 0) return;
  Slot& p = slots_[parent.slot];
  if (p.page_class == kFree || p.tag != parent.tag || p.children == UINT16_MAX) return;
  const uint16_t parent_tag = static_cast<uint16_t>(p.tag);
  if (s.parent == parent.slot && s.parent_tag == parent_tag) return;
  leave_parent(slot);
  s.parent = parent.slot;
  s.parent_tag = parent_tag;
  if (++p.children == 1) out_of_cell(parent.slot);
}

void Eviction::leave_parent(uint32_t slot) {
  Slot& s = slots_[slot];
  const uint32_t parent = s.parent;
  s.parent = kNoSlot;
  if (parent == kNoSlot) return;
  Slot& p = slots_[parent];
  // A parent that was freed before its children may have another page now.
  if (p.page_class == kFree || static_cast<uint16_t>(p.tag) != s.parent_tag || p.children == 0) {
    return;
  }
  // It goes on where its child stood, so one prompt is used up before the next.
  if (--p.children == 0) into_cell(parent, p.request != s.request);
}

void Eviction::erased(uint32_t slot) {
  if (slot >= slots_.size() || slots_[slot].page_class == kFree) return;
  if (slots_[slot].cell != kNoCell) out_of_cell(slot);
  leave_parent(slot);
  slots_[slot] = Slot{};
  --resident_;
}

void Eviction::evict(uint32_t slot) {
  ghosts_.add(slots_[slot].tag, slots_[slot].uses);
  erased(slot);
}

uint32_t Eviction::victim(MayEvict may_evict) {
  uint32_t offers = 0;
  for (uint32_t rank = first_rank(0); rank < kCells && offers < kOffersBest;
       rank = first_rank(rank + 1)) {
    uint32_t slot = cells_[cell_at_[rank]].oldest;
    for (uint32_t i = 0; i < kOffersInCell && slot != kNoSlot && offers < kOffersBest; ++i) {
      ++offers;
      if (may_evict(slot)) {
        evict(slot);
        return slot;
      }
      slot = slots_[slot].cell_younger;
    }
  }
  // All the leaves asked are leased or in flight: any slot will do.
  const uint32_t slots = slots_.size();
  for (uint32_t i = 0; i < std::min(slots, kSweepMax) && offers < kOffersMax; ++i) {
    sweep_hand_ = sweep_hand_ + 1 < slots ? sweep_hand_ + 1 : 0;
    if (slots_[sweep_hand_].page_class == kFree) continue;
    ++offers;
    if (may_evict(sweep_hand_)) {
      const uint32_t slot = sweep_hand_;
      evict(slot);
      return slot;
    }
  }
  return kNoSlot;
}

uint64_t Eviction::coldness(uint64_t request_now) const {
  const uint32_t rank = first_rank(0);
  if (rank >= kCells) return 0;
  const uint64_t last = now_ - age_of(slots_[cells_[cell_at_[rank]].oldest]);
  return request_now > last ? request_now - last : 0;
}

size_t Eviction::memory_bytes() const {
  return sizeof(*this) + slots_.memory_bytes() + ghosts_.memory_bytes() + model_.memory_bytes();
}

void Eviction::advance(uint64_t request) {
  if (request > now_) {
    now_ = request;
    age_cells();
  }
  if (model_.fit_due()) {
    model_.fit(static_cast<uint32_t>(now_));
    rank_cells();
  }
}

void Eviction::into_cell(uint32_t slot, bool as_youngest) {
  Slot& s = slots_[slot];
  s.cell =
      static_cast<uint16_t>(s.page_class * ReuseModel::kBuckets + ReuseModel::bucket_of(age_of(s)));
  Cell& cell = cells_[s.cell];
  s.cell_older = as_youngest ? cell.youngest : kNoSlot;
  s.cell_younger = as_youngest ? kNoSlot : cell.oldest;
  (s.cell_older != kNoSlot ? slots_[s.cell_older].cell_younger : cell.oldest) = slot;
  (s.cell_younger != kNoSlot ? slots_[s.cell_younger].cell_older : cell.youngest) = slot;
  ranks_[rank_of_[s.cell] / 64] |= uint64_t{1} << (rank_of_[s.cell] % 64);
}

void Eviction::out_of_cell(uint32_t slot) {
  Slot& s = slots_[slot];
  Cell& cell = cells_[s.cell];
  (s.cell_older != kNoSlot ? slots_[s.cell_older].cell_younger : cell.oldest) = s.cell_younger;
  (s.cell_younger != kNoSlot ? slots_[s.cell_younger].cell_older : cell.youngest) = s.cell_older;
  if (cell.oldest == kNoSlot) {
    ranks_[rank_of_[s.cell] / 64] &= ~(uint64_t{1} << (rank_of_[s.cell] % 64));
  }
  s.cell = kNoCell;
  s.cell_older = kNoSlot;
  s.cell_younger = kNoSlot;
}

// Leaves that outgrew their bucket move to the next. They are the youngest there, so cells stay in
// order. A jump of the request number takes several requests to work through.
void Eviction::age_cells() {
  for (uint32_t c = kCells; c-- > 0;) {
    for (uint32_t i = 0; i < kAgedLeaves; ++i) {
      const uint32_t slot = cells_[c].oldest;
      if (slot == kNoSlot || age_of(slots_[slot]) < cells_[c].age_end) break;
      out_of_cell(slot);
      into_cell(slot, true);
    }
  }
}

void Eviction::rank_cells() {
  // Ages, in whole buckets, at which the youngest kYoungShare of the slots arrived.
  const uint64_t pages = std::max<uint64_t>(1, inserted_since_);
  const uint64_t young_age = slots_.size() * (now_ - ranked_at_) / pages / kYoungShare;
  const uint32_t young =
      ReuseModel::bucket_of(static_cast<uint32_t>(std::min<uint64_t>(young_age, UINT32_MAX)));
  inserted_since_ = 0;
  ranked_at_ = now_;
  double worth[kCells];
  for (uint32_t c = 0; c < kCells; ++c) {
    const uint32_t bucket = c % ReuseModel::kBuckets;
    worth[c] = bucket < young ? kYoungWorth : model_.worth(c / ReuseModel::kBuckets, bucket);
  }
  // Equal worth (nothing learned yet): older first, then the class with fewer uses.
  std::sort(std::begin(cell_at_), std::end(cell_at_), [&](uint16_t a, uint16_t b) {
    if (worth[a] != worth[b]) return worth[a] < worth[b];
    const uint32_t age_a = a % ReuseModel::kBuckets, age_b = b % ReuseModel::kBuckets;
    return age_a != age_b ? age_a > age_b : a < b;
  });
  std::fill(std::begin(ranks_), std::end(ranks_), 0);
  for (uint32_t r = 0; r < kCells; ++r) {
    rank_of_[cell_at_[r]] = static_cast<uint16_t>(r);
    if (cells_[cell_at_[r]].oldest != kNoSlot) ranks_[r / 64] |= uint64_t{1} << (r % 64);
  }
}

uint32_t Eviction::first_rank(uint32_t from) const {
  for (uint32_t word = from / 64; word < kRankWords; ++word) {
    uint64_t bits = ranks_[word];
    if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits != 0) return word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
  }
  return kCells;
}

}  // namespace kvsidecar
