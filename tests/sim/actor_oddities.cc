// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/sim/actor.h"

namespace kvsidecar::sim {
namespace {

constexpr Geometry kGeometry = testing::Engine::kGeometry;
constexpr uint64_t kNobodys = 1'000'000;  // added to a handle: one that was never given
constexpr uint64_t kOneEpoch = 1ull << 48;

}  // namespace

// Records that are refused and harm nobody.
void Actor::send_foul() {
  Pending pending = start(static_cast<RecordType>(random_.below(16)), 0);
  if (pending.type == RecordType::kLookup) pending.type = RecordType::kPut;
  std::vector<std::byte> junk(8 * (1 + random_.below(40)));
  for (std::byte& b : junk) b = static_cast<std::byte>(random_.next());
  const RecordType type = pending.type;
  pending.type = RecordType::kNoop;
  pending.foul = true;
  pending.request = engine_->send_record(type, junk);
  keep(std::move(pending), "junk");
}

void Actor::end_foully() {
  shared_.trace.event(name() + " behaves foully");
  foul_ = true;
  if (!open_lookup_.empty()) {
    Encoded record;
    encode(ReleaseRequest{1}, record);
    engine_->send_record(RecordType::kRelease, record);
  } else if (random_.one_in(2)) {
    engine_->session_memory().submission_head().published.store(random_.next());
  } else {
    engine_->session_memory().cell_page().consumed.store(random_.next());
    Encoded record;
    encode(ReleaseRequest{1}, record);
    engine_->send_record(RecordType::kRelease, record);
  }
}

// A well-formed request with one thing in it that can't be.
void Actor::send_odd() {
  const size_t number = random_.below(uses_.size());
  const Use& use = uses_[number];
  Pending pending = start(RecordType::kNoop, number);
  pending.odd = true;
  const std::vector<std::byte> key = testing::key_of(random_.below(shared_.plan.keys), 32);
  const uint64_t request = engine_->next_request();
  Block block{use.layout, static_cast<uint32_t>(random_.below(kBlocks)),
              engine_->take_claims(request, 1)[0]};
  Run run{region_, use.offset, use.part_bytes};
  GetRequest get;
  get.namespace_handle = use.handle;
  const uint64_t kind = random_.below(10);
  const auto some = static_cast<uint32_t>(random_.below(1u << 30));
  if (kind == 0) get.namespace_handle += kNobodys;
  if (kind == 1) get.namespace_handle -= kOneEpoch;
  if (kind == 2) block.layout += kNobodys;
  if (kind == 3) block.block = kBlocks + some;
  if (kind == 4) block.claim = kGeometry.claims + some;
  if (kind == 5) get.fence = {kGeometry.fences + some, 0, 1};
  if (kind == 6) run.offset = engine_->memory().size() - 8;
  if (kind == 7) run.offset = UINT64_MAX - some;
  if (kind == 8) get.lease = use.handle - kOneEpoch;
  if (kind == 9) get.progress = kGeometry.progress_words + some % 1000;
  const RunItem run_item{0, 1, block.claim, 0};
  if (kind == 6 || kind == 7)
    get.items = {{}, {&run_item, 1}, {&run, 1}};
  else
    get.items = {{&block, 1}, {}, {}};
  get.keys = {Bytes(key), 32};
  PutRequest put;
  put.namespace_handle = get.namespace_handle;
  put.keys = get.keys;
  put.items = get.items;
  put.fence = get.fence;
  const bool sends_put = kind < 8 && random_.one_in(2);
  pending.request =
      sends_put ? engine_->send(RecordType::kPut, put) : engine_->send(RecordType::kGet, get);
  keep(std::move(pending), "odd request");
}

// While copies into and out of it run. From its answer on the memory is the engine's alone.
void Actor::send_unregister() {
  Pending pending = start(RecordType::kUnregister, 0);
  pending.request = engine_->send(RecordType::kUnregister, UnregisterRequest{region_});
  unregistering_ = true;
  keep(std::move(pending), "unregister");
}

void Actor::unregister_answered(const Pending& pending, const testing::Answer& answer) {
  unregistering_ = false;
  if (answer.status() != Code::kOk) return violation("unregister refused: " + answer.text);
  for (const Pending& other : pending_)
    if (!other.items.empty() && other.request < pending.request &&
        !engine_->answer(other.request).has_value())
      violation("the region was let go while request " + std::to_string(other.request) +
                " may still touch it");
  stage_ = plan_.spaces.size();  // to be registered again
  set_up_request_ = 0;
}

// Requests are in the ring, whole or half of them, and were never published.
void Actor::die_in_a_batch() {
  if (pending_.size() > 10) return;
  engine_->hold_back = true;
  const size_t published = pending_.size();
  for (uint64_t i = 0; i <= random_.below(3) && engine_->has_room(); ++i)
    random_.one_in(3) ? send_get() : send_put();
  for (auto pending = std::next(pending_.begin(), static_cast<ptrdiff_t>(published));
       pending != pending_.end(); ++pending)
    for (const Item& item : pending->items)
      if (pending->type == RecordType::kPut)
        (void)shared_.model.end_write(item.stamp, false, pending->generation, shared_.trace.now());
  die("before it published what it wrote into its ring");
}

}  // namespace kvsidecar::sim
