// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/copies.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/gets.h"
#include "sidecar/conductor/puts.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBatchBytes = 4ull
                                 << 20;  // one command; big enough to hide the hop between threads
constexpr uint64_t kWorkerBytes = 16ull
                                  << 20;  // at one worker at a time: more would only delay loads
constexpr uint64_t kStoreBytes = 8ull
                                 << 20;  // and this much more for stores: loads never shut them out
constexpr uint64_t kTurnBytes = 8ull
                                << 20;  // what a session may start before it is the next one's turn
constexpr uint32_t kBatchItems = 256;

uint64_t part_bytes(const Operation& op) { return op.space->fields.parts[op.part].bytes; }

CopyItem copy_item(World& world, const ItemRef& ref) {
  Operation& op = *ref.op;
  OpItem& item = ref.item();
  CopyItem copy;
  copy.claim = item.claim;
  copy.bytes = part_bytes(op);
  copy.layout = item.layout;
  copy.block = item.block;
  copy.deadline_ns = op.deadline_ns;
  copy.seed = part_seed(op.hashes[ref.index], op.coordinate);
  const SlotId slot = op.type == RecordType::kPut ? filling_slot(world, op.hashes[ref.index])
                                                  : world.index[item.entry].host_slot;
  copy.host = world.parts.pool->bytes(slot) + op.space->part_offsets[op.part];
  if (item.layout == nullptr) {
    copy.pieces.assign(op.pieces.begin() + item.first_piece,
                       op.pieces.begin() + item.first_piece + item.piece_count);
    std::byte* host = copy.host;
    for (Piece& piece : copy.pieces) {
      piece.host = host;
      host += piece.bytes;
    }
  }
  return copy;
}

// Takes items off a queue up to a batch; a layered get comes alone and whole.
std::unique_ptr<CopyBatch> take_batch(World& world, std::deque<ItemRef>& queue, CopyKind kind) {
  auto batch = std::make_unique<CopyBatch>();
  batch->command.kind = kind;
  while (!queue.empty() &&
         (batch->refs.size() < kBatchItems || batch->command.progress != nullptr)) {
    const ItemRef ref = queue.front();
    if (ref.item().state != ItemState::kReady) {  // settled while it waited
      queue.pop_front();
      continue;
    }
    const bool layered = ref.op->progress != nullptr;
    if (!batch->refs.empty()) {
      const bool same_layered =
          layered && batch->command.progress == ref.op->progress && batch->refs[0].op == ref.op;
      if (batch->command.progress != nullptr
              ? !same_layered
              : layered || batch->bytes + part_bytes(*ref.op) > kBatchBytes)
        break;
    } else if (layered) {
      batch->command.kind = CopyKind::kGetLayered;
      batch->command.progress = ref.op->progress;
    }
    queue.pop_front();
    ref.item().state = ItemState::kCopying;
    batch->items.push_back(copy_item(world, ref));
    batch->refs.push_back(ref);
    batch->bytes += part_bytes(*ref.op);
  }
  return batch->refs.empty() ? nullptr : std::move(batch);
}

void put_back(std::deque<ItemRef>& queue, CopyBatch& batch) {
  for (auto ref = batch.refs.rbegin(); ref != batch.refs.rend(); ++ref) {
    ref->item().state = ItemState::kReady;
    queue.push_front(*ref);
  }
}

void finish_batch(World& world, CopyBatch& batch) {
  const bool put = batch.command.kind == CopyKind::kPut;
  for (size_t i = 0; i < batch.refs.size(); ++i) {
    const CopyItem& copied = batch.items[i];
    if (copied.status == Code::kOk)
      (put ? world.count.bytes_put : world.count.bytes_get).add(copied.bytes);
    if (put)
      part_copied(world, batch.refs[i], copied);
    else
      page_loaded(world, batch.refs[i], copied);
  }
}

size_t least_loaded(const World& world) {
  const auto least = std::min_element(world.worker_bytes.begin(), world.worker_bytes.end());
  return static_cast<size_t>(least - world.worker_bytes.begin());
}

bool nothing_outstanding(const World& world) {
  return std::all_of(world.worker_bytes.begin(), world.worker_bytes.end(),
                     [](uint64_t b) { return b == 0; });
}

// A small copy with nothing else to do: a hop between threads would cost more than the copy. All of
// a turn's together are as small, or many sessions' copies would be made one after the other here.
bool run_inline(World& world, std::unique_ptr<CopyBatch>& batch) {
  CopyWorker* worker = world.parts.inline_copy;
  if (worker == nullptr || batch->bytes > world.inline_left_bytes ||
      !nothing_outstanding(world))
    return false;
  if (!worker->submit(batch->command)) return false;
  world.inline_left_bytes -= batch->bytes;
  CopyDone done;
  while (!worker->poll(done)) worker->step();
  finish_batch(world, *batch);
  return true;
}

bool start_batch(World& world, std::deque<ItemRef>& queue, CopyKind kind, uint64_t& started_bytes) {
  const size_t worker = least_loaded(world);
  const uint64_t room = kWorkerBytes + (kind == CopyKind::kPut ? kStoreBytes : 0);
  if (world.worker_bytes[worker] >= room) return false;
  std::unique_ptr<CopyBatch> batch = take_batch(world, queue, kind);
  if (batch == nullptr) return false;
  if (batch->command.progress != nullptr && batch->refs.size() < batch->refs[0].op->items.size()) {
    // A page of it is missing: layers that are done for the others must not look done for all.
    batch->command.kind = CopyKind::kGet;
    batch->command.progress = nullptr;
  }
  batch->command.token = world.new_token();
  batch->command.items = batch->items.data();
  batch->command.count = static_cast<uint32_t>(batch->items.size());
  started_bytes += batch->bytes;
  if (queue.empty() && run_inline(world, batch)) return true;
  batch->worker = worker;
  if (!world.parts.copy_workers[worker]->submit(batch->command)) {
    world.count.busy_copy_queue.add();
    put_back(queue, *batch);
    return false;
  }
  world.worker_bytes[worker] += batch->bytes;
  world.copies[batch->command.token] = std::move(batch);
  return true;
}

bool start_direction(World& world, std::deque<ItemRef> Session::*queue, CopyKind kind) {
  bool any = false;
  const size_t sessions = world.turn_order.size();
  for (size_t i = 0; i < sessions; ++i) {
    // By number, not by reference: finishing an inline copy may end a session.
    if (world.turn_order.empty()) break;
    Session* session = world.turn_order[(world.turn + i) % world.turn_order.size()];
    uint64_t started_bytes = 0;
    while (started_bytes < kTurnBytes && !(session->*queue).empty())
      if (!start_batch(world, session->*queue, kind, started_bytes)) break;
    any |= started_bytes > 0;
  }
  return any;
}

}  // namespace

void make_ready(World&, const ItemRef& ref) {
  OpItem& item = ref.item();
  if (item.state == ItemState::kSettled) return;
  item.state = ItemState::kReady;
  Session& session = *ref.op->session;
  push_item(ref.op->type == RecordType::kPut ? session.stores : session.loads, ref);
}

bool start_copies(World& world) {
  world.inline_left_bytes = world.limits.inline_copy_bytes;
  bool any = start_direction(world, &Session::loads, CopyKind::kGet);
  any |= start_direction(world, &Session::stores, CopyKind::kPut);
  if (any) ++world.turn;
  return any;
}

bool finish_copies(World& world) {
  bool any = false;
  CopyDone done;
  for (size_t worker = 0; worker < world.parts.copy_workers.size(); ++worker) {
    while (world.parts.copy_workers[worker]->poll(done)) {
      const auto found = world.copies.find(done.token);
      KV_CHECK(found != world.copies.end());
      const std::unique_ptr<CopyBatch> batch = std::move(found->second);
      world.copies.erase(found);
      world.worker_bytes[worker] -= batch->bytes;
      finish_batch(world, *batch);
      any = true;
    }
  }
  return any;
}

}  // namespace kvsidecar
