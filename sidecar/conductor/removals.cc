// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/removals.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kUnlinkRetryNs = 5'000'000'000;

bool submit(World& world, StoreOp op, const StoreLocation& location) {
  StoreCommand command;
  command.op = op;
  command.token = world.new_token();
  command.location = location;
  if (!world.parts.store->submit(std::move(command))) return false;
  ++world.removals_away;
  if (op == StoreOp::kUnlink) ++world.unlinks_away;
  return true;
}

}  // namespace

bool bury(World& world, const StoreLocation& location) {
  if (submit(world, StoreOp::kDelete, location)) return true;
  world.count.busy_store_queue.add();
  return false;
}

void bury_surely(World& world, const StoreLocation& location) {
  if (!world.burials_waiting.empty() || !bury(world, location))
    world.burials_waiting.push_back(location);
}

void unlink_segment(World& world, uint64_t segment) {
  if (!submit(world, StoreOp::kUnlink, {segment, 0})) world.unlinks_waiting.push_back(segment);
}

void retry_removals(World& world) {
  while (!world.burials_waiting.empty() &&
         submit(world, StoreOp::kDelete, world.burials_waiting.front()))
    world.burials_waiting.pop_front();
  while (!world.unlinks_waiting.empty() &&
         submit(world, StoreOp::kUnlink, {world.unlinks_waiting.front(), 0}))
    world.unlinks_waiting.pop_front();
}

void removal_done(World& world, const StoreDone& done) {
  KV_CHECK(world.removals_away > 0);
  --world.removals_away;
  if (done.op != StoreOp::kUnlink) return;
  --world.unlinks_away;
  // Where files can't be unlinked, giving up one segment after the other would free nothing.
  if (done.status != Code::kOk && done.status != Code::kMiss)
    world.trim_again_ns = world.now_ns + kUnlinkRetryNs;
}

bool removals_wait(const World& world) {
  return world.removals_away > 0 || !world.unlinks_waiting.empty() ||
         !world.burials_waiting.empty();
}

}  // namespace kvsidecar
