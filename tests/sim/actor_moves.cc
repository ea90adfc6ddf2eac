// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/sim/actor.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kTimeoutsNs[] = {1'000'000, 50'000'000, 1'000'000'000, 20'000'000'000};
constexpr uint32_t kFences = testing::Engine::kGeometry.fences;
constexpr size_t kKeyBytes = 32;

std::vector<std::byte> bytes_of(const std::vector<uint64_t>& keys) {
  std::vector<std::byte> bytes;
  for (const uint64_t key : keys) {
    const std::vector<std::byte> one = testing::key_of(key, kKeyBytes);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

}  // namespace

void Actor::move() {
  if (!engine_->has_room()) return;
  if (!open_lookup_.empty()) {
    if (random_.one_in(50)) return end_foully();
    return send_lookup_record(open_lookup_head_.request);
  }
  for (size_t use = 0; use < uses_.size(); ++use)
    if (uses_[use].stale && !uses_[use].attaching) return send_attach();
  const uint64_t dice = random_.below(1000);
  if (dice < 230) return send_lookup();
  if (dice < 480) return send_get();
  if (dice < 780) return send_put();
  if (dice < 870) return signal_some(false);
  if (dice < 920) return revoke_some();
  if (dice < 945) return send_release();
  if (dice < 965) return send_cancel();
  if (dice < 980) return send_delete();
  if (dice < 984) return send_clear();
  if (dice < 988) return send_foul();
  if (dice < 992) return send_odd();
  if (dice < 993) return end_foully();
  if (dice < 995) return die("as processes do");
  if (dice < 996) return die_in_a_batch();
  if (dice < 998 && !unregistering_) return send_unregister();
}

std::vector<uint64_t> Actor::some_keys(uint64_t most) {
  const uint64_t count = 1 + random_.below(most);
  const uint64_t first = random_.below(shared_.plan.keys);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back((first + i) % shared_.plan.keys);
  if (random_.one_in(16)) keys.push_back(keys[0]);  // the same page twice in a request
  return keys;
}

Actor::Pending Actor::start(RecordType type, size_t use) {
  Pending pending;
  pending.type = type;
  pending.use = use;
  pending.part = uses_[use].part;
  pending.generation = uses_[use].generation;
  pending.sent_at = shared_.trace.now();
  pending.sent_ns = shared_.clock.now_ns();
  engine_->timeout_ns = kTimeoutsNs[random_.below(std::size(kTimeoutsNs))];
  pending.deadline_ns = pending.sent_ns + engine_->timeout_ns;
  return pending;
}

void Actor::keep(Pending&& pending, const char* what) {
  std::string text = name() + " " + what + " " + std::to_string(pending.request) + " space " +
                     std::to_string(uses_[pending.use].space) + " keys";
  for (const uint64_t key : pending.keys) text += " " + std::to_string(key);
  for (const Item& item : pending.items)
    text += " " + std::to_string(item.key) + "@" + std::to_string(item.block) + "=" +
            std::to_string(item.stamp);
  shared_.trace.event(text);
  pending_.push_back(std::move(pending));
}

void Actor::send_lookup() {
  Pending pending = start(RecordType::kLookup, 0);
  pending.keys = some_keys(10);
  if (random_.one_in(2)) pending.lease_ms = static_cast<uint32_t>(1 + random_.below(4000));
  if (plan_.grouped && random_.one_in(2)) {
    const auto open =
        std::find_if(shared_.tickets.begin(), shared_.tickets.end(),
                     [&](const OpenTicket& ticket) { return ticket.asked.count(plan_.part) == 0; });
    if (open != shared_.tickets.end()) {
      pending.keys = open->keys;
      pending.ticket = open->number;
      open->asked.insert(plan_.part);
    } else {
      pending.ticket = ++shared_.last_ticket;
      shared_.tickets.push_back({pending.ticket, pending.keys, {plan_.part}, {}});
    }
  }
  open_lookup_ = pending.keys;
  open_lookup_head_ = std::move(pending);
  send_lookup_record(0);
}

// A lookup's keys go in one record or in two; nothing else may go between them.
void Actor::send_lookup_record(uint64_t request) {
  Pending& pending = open_lookup_head_;
  std::vector<PoolPolicy> pools;
  for (const Use& use : uses_) {
    const SpacePlan& space = shared_.plan.spaces[static_cast<size_t>(use.space)];
    pools.push_back({use.handle, space.policy, space.trailing});
  }
  const size_t sent = pending.keys.size() - open_lookup_.size();
  std::vector<uint64_t> keys = open_lookup_;
  if (request == 0 && keys.size() > 1 && random_.one_in(4)) keys.resize(keys.size() / 2);
  open_lookup_.erase(open_lookup_.begin(),
                     open_lookup_.begin() + static_cast<ptrdiff_t>(keys.size()));
  const std::vector<std::byte> bytes = bytes_of(keys);
  LookupRequest lookup;
  lookup.keys = {Bytes(bytes), kKeyBytes};
  lookup.offset = static_cast<uint32_t>(sent);
  lookup.total = static_cast<uint32_t>(pending.keys.size());
  lookup.pools = pools;
  lookup.ticket = pending.ticket;
  lookup.lease_ms = pending.lease_ms;
  lookup.prefetch = pending.lease_ms % 2 != 0;
  Encoded record;
  encode(lookup, record);
  pending.request = engine_->send_record(RecordType::kLookup, record, request);
  if (open_lookup_.empty()) keep(std::move(pending), "lookup");
}

bool Actor::take_blocks(Pending& pending, Use& use) {
  for (const uint64_t key : pending.keys) {
    const std::optional<uint32_t> block = use.blocks.take(random_);
    if (!block.has_value()) break;
    if (!use.blocks.holds_its_own(*block))
      violation("block " + std::to_string(*block) + " was changed while it was the engine's");
    Item item;
    item.key = key;
    item.block = *block;
    pending.items.push_back(item);
  }
  pending.keys.clear();
  return !pending.items.empty();
}

template <typename Request>
uint64_t Actor::send_transfer(RecordType type, Request request, Pending& pending, const Use& use) {
  std::vector<uint64_t> keys;
  for (const Item& item : pending.items) keys.push_back(item.key);
  const std::vector<std::byte> bytes = bytes_of(keys);
  const uint64_t number = engine_->next_request();
  const std::vector<uint32_t> claims = engine_->take_claims(number, keys.size());
  std::vector<Block> blocks;
  std::vector<RunItem> run_items;
  std::vector<Run> runs;
  const bool explicit_runs = pending.progress == kNoIndex && random_.one_in(8);
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const uint32_t block = pending.items[i].block;
    if (!explicit_runs) {
      blocks.push_back({use.layout, block, claims[i]});
      continue;
    }
    const uint64_t start = use.offset + block * use.part_bytes, half = use.part_bytes / 16 * 8;
    run_items.push_back({static_cast<uint32_t>(runs.size()), 2, claims[i], 0});
    runs.push_back({region_, start, half});
    runs.push_back({region_, start + half, use.part_bytes - half});
  }
  request.namespace_handle = use.handle;
  request.keys = {Bytes(bytes), kKeyBytes};
  request.items = {blocks, run_items, runs};
  if (random_.one_in(5)) {
    const auto in_use = [&](uint32_t index) {
      return std::any_of(pending_.begin(), pending_.end(),
                         [&](const Pending& other) { return other.fence == index; });
    };
    do pending.fence = next_fence_++ % kFences;
    while (in_use(pending.fence));
    pending.fence_value = ++last_fence_value_;
    request.fence = {pending.fence, 0, pending.fence_value};
  }
  return engine_->send(type, request);
}

void Actor::send_put() {
  const size_t number = random_.below(uses_.size());
  Use& use = uses_[number];
  Pending pending = start(RecordType::kPut, number);
  pending.keys = some_keys(4);
  if (!take_blocks(pending, use)) return;
  pending.durable = random_.one_in(6);
  for (Item& item : pending.items)
    item.stamp = shared_.model.begin_write(page(use, item.key), use.part, use.generation);
  PutRequest put;
  put.durable = pending.durable;
  put.position = static_cast<uint32_t>(pending.items[0].key);
  std::vector<std::byte> description(plan_.description_bytes_max * pending.items.size());
  std::vector<uint32_t> ends;
  for (uint32_t i = 1; i <= pending.items.size(); ++i)
    ends.push_back(i * plan_.description_bytes_max);
  if (!description.empty() && random_.one_in(2)) {
    put.descriptions = description;
    put.description_ends = ends;
  }
  // Without a fence the bytes are there; with one the engine's kernels still make them.
  const uint64_t request = send_transfer(RecordType::kPut, put, pending, use);
  for (const Item& item : pending.items)
    if (pending.fence == kNoIndex)
      use.blocks.write(item.block, item.stamp);
    else
      use.blocks.write(item.block, shared_.model.new_stamp());
  pending.request = request;
  keep(std::move(pending), "put");
}

void Actor::send_get() {
  const size_t number = random_.below(uses_.size());
  Use& use = uses_[number];
  Pending pending = start(RecordType::kGet, number);
  pending.keys = some_keys(4);
  const HeldLease* lease = nullptr;
  if (!leases_.empty() && random_.one_in(2)) lease = &leases_[random_.below(leases_.size())];
  if (lease != nullptr && lease->use == number && !lease->keys.empty()) pending.keys = lease->keys;
  if (!take_blocks(pending, use)) return;
  GetRequest get;
  const auto& parts = shared_.plan.spaces[static_cast<size_t>(use.space)].fields.parts;
  if (random_.one_in(4) && parts.size() > 1) {
    pending.part = 1 - use.part;
    get.has_coordinate = true;
    get.coordinate = parts[pending.part].coordinate;
  }
  if (random_.one_in(3) && pending_.size() < testing::Engine::kGeometry.progress_words) {
    const auto in_use = [&](const Pending& other) { return other.progress == pending.progress; };
    do pending.progress = next_progress_++ % testing::Engine::kGeometry.progress_words;
    while (std::any_of(pending_.begin(), pending_.end(), in_use));
    get.progress = pending.progress;
  }
  if (lease != nullptr && lease->use == number) {
    pending.lease = get.lease = lease->handle;
    pending.held_until_ns = lease->until_ns;
    for (Item& item : pending.items)
      item.held = !plan_.grouped && lease->generation == use.generation &&
                  std::count(lease->keys.begin(), lease->keys.end(), item.key) != 0 &&
                  !shared_.model.deleted_since(page(use, item.key), lease->got_at);
  }
  for (Item& item : pending.items) {
    item.stamp = shared_.model.new_stamp();
    use.blocks.write(item.block, item.stamp);
  }
  pending.request = send_transfer(RecordType::kGet, get, pending, use);
  keep(std::move(pending), "get");
}

void Actor::send_delete() {
  const size_t number = random_.below(uses_.size());
  Pending pending = start(RecordType::kDelete, number);
  pending.keys = some_keys(3);
  const std::vector<std::byte> bytes = bytes_of(pending.keys);
  pending.request = engine_->send(RecordType::kDelete,
                                  DeleteRequest{uses_[number].handle, {Bytes(bytes), kKeyBytes}});
  for (const uint64_t key : pending.keys)
    shared_.model.delete_sent(page(uses_[number], key), shared_.trace.now());
  keep(std::move(pending), "delete");
}

void Actor::send_clear() {
  if (!random_.one_in(4)) return;
  const size_t number = random_.below(uses_.size());
  Pending pending = start(RecordType::kClear, number);
  pending.request = engine_->send(RecordType::kClear, ClearRequest{uses_[number].handle, {}});
  ++uses_[number].clears;
  keep(std::move(pending), "clear");
}

void Actor::send_release() {
  if (leases_.empty()) return;
  const size_t number = random_.below(leases_.size());
  Pending pending = start(RecordType::kRelease, 0);
  pending.request = engine_->send(RecordType::kRelease, ReleaseRequest{leases_[number].handle});
  for (Pending& other : pending_)  // the release may overtake nothing, but its pages may go
    if (other.lease == leases_[number].handle) other.held_until_ns = 0;
  leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(number));
  keep(std::move(pending), "release");
}

void Actor::send_cancel() {
  if (pending_.empty()) return;
  const auto victim =
      std::next(pending_.begin(), static_cast<ptrdiff_t>(random_.below(pending_.size())));
  Pending pending = start(RecordType::kCancel, 0);
  pending.request = engine_->send(RecordType::kCancel, CancelRequest{victim->request});
  keep(std::move(pending), "cancel");
}

void Actor::send_attach() {
  const auto use = std::find_if(uses_.begin(), uses_.end(),
                                [](const Use& u) { return u.stale && !u.attaching; });
  const size_t stage = stage_;
  stage_ = static_cast<size_t>(use - uses_.begin());
  Pending pending = start(RecordType::kAttach, stage_);
  use->attaching = true;
  send_set_up();
  stage_ = stage;
  pending.request = set_up_request_;
  pending.generation = cleared_before_;
  keep(std::move(pending), "attach again");
}

void Actor::revoke_some() {
  for (Pending& pending : pending_) {
    if (!random_.one_in(4)) continue;
    for (uint32_t i = 0; i < pending.items.size(); ++i) {
      Item& item = pending.items[i];
      if (item.released) continue;
      const Claim claim = engine_->claim(pending.request, i);
      const bool abandoned = pending.type == RecordType::kPut &&
                             claim.move(ClaimState::kCopying, ClaimState::kAbandoned);
      if (!abandoned && !claim.move(ClaimState::kQueued, ClaimState::kRevoked)) continue;
      shared_.trace.event(name() + (abandoned ? " abandons " : " revokes ") +
                          std::to_string(pending.request) + "/" + std::to_string(i));
      release_item(pending, item);
    }
  }
}

void Actor::signal_some(bool all) {
  for (Pending& pending : pending_) {
    if (pending.fence == kNoIndex || (!all && !random_.one_in(2))) continue;
    Use& use = uses_[pending.use];
    if (pending.type == RecordType::kPut)
      for (const Item& item : pending.items)
        if (!item.released) use.blocks.write(item.block, item.stamp);
    engine_->session_memory().fence(pending.fence)->store(pending.fence_value);
    shared_.trace.event(name() + " signals " + std::to_string(pending.request));
    pending.fence = kNoIndex;
  }
}

}  // namespace kvsidecar::sim
