// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenario.h"

namespace kvsidecar::sim {
namespace {

using testing::SeededRandom;

constexpr uint64_t kPageSizes[] = {4096, 4104, 6000, 8192, 16384};
constexpr uint64_t kSpan = 64 * 1024;

void plan_limits(SeededRandom& random, Limits& limits) {
  limits.verify = static_cast<Verify>(random.below(3));
  limits.admission = static_cast<Admission>(random.below(3));
  limits.inline_copy_bytes = random.one_in(2) ? 512 * 1024 : 8192;
  limits.parts_timeout_ns = (1 + random.below(4)) * 1'000'000'000;
  limits.lease_max_ns = 5'000'000'000;
  limits.lease_pages_per_session = random.one_in(2) ? 1000 : 8;
  limits.store_depth = static_cast<uint32_t>(1 + random.below(16));
  limits.write_behind_bytes = random.one_in(3) ? 48 * 1024 : 1ull << 30;
  limits.write_bytes_per_s = random.one_in(4) ? 256 * 1024 : 0;
  limits.store_capacity_bytes = random.one_in(3) ? 256 * 1024 : 1ull << 40;
}

MemoryFaults plan_store_faults(SeededRandom& random) {
  MemoryFaults faults;
  faults.late = random.one_in(2) ? 300 : 0;
  faults.late_steps_max = 40;
  if (random.one_in(2)) return faults;
  faults.write_fails = random.one_in(2) ? 100 : 0;
  faults.read_fails = random.one_in(2) ? 100 : 0;
  faults.read_corrupt = random.one_in(2) ? 100 : 0;
  faults.delete_fails = random.one_in(2) ? 100 : 0;
  return faults;
}

RingPlan plan_rings(SeededRandom& random) {
  RingPlan plan;
  plan.used = random.one_in(3);
  plan.entries = random.one_in(2) ? 4 : 64;
  plan.job_max = static_cast<uint32_t>(random.below(5));
  const auto sometimes = [&random](uint64_t one_in, uint32_t chance) {
    return random.one_in(one_in) ? chance : 0;
  };
  plan.faults = {.stalls = sometimes(2, 100),
                 .lost = sometimes(2, 30),
                 .fails = sometimes(2, 60),
                 .cut = sometimes(3, 200),
                 .tail_not_read = sometimes(3, 300),
                 .dies = sometimes(2, 300),
                 .vanishes = sometimes(2, 800),
                 .denied = sometimes(3, 500)};
  return plan;
}

void plan_engines(SeededRandom& random, Scenario& plan) {
  const uint64_t page = kPageSizes[random.below(std::size(kPageSizes))];
  plan.spaces.push_back({testing::fields_of(page)});
  plan.spaces.push_back({testing::fields_of(kPageSizes[random.below(3)], 2, "group")});
  plan.spaces.push_back({testing::fields_of(4096, 1, "swa"), HitPolicy::kTrailingPages,
                         static_cast<uint32_t>(1 + random.below(3))});
  const size_t actors = 2 + random.below(3);
  const bool grouped = random.one_in(2);
  for (size_t i = 0; i < actors; ++i) {
    ActorPlan actor;
    actor.runs = random.one_in(2) ? 4 : 1;
    actor.description_bytes_max = random.one_in(2) ? 0 : 600;
    actor.deaf_at_times = actor.description_bytes_max == 0 && random.one_in(2);
    if (grouped && i < 2) {
      actor.spaces = {1};
      actor.grouped = true;
      actor.part = static_cast<uint16_t>(i);
    } else {
      actor.spaces = {0};
      if (random.one_in(2)) actor.spaces.push_back(2);
    }
    plan.actors.push_back(std::move(actor));
  }
}

// Large pages in a small pool go to the store and have to be read again.
void plan_much_reading(SeededRandom& random, Scenario& plan) {
  plan.node.pool_bytes = (4 + random.below(2)) * kSpan;
  plan.spaces[0].fields = testing::fields_of(kPageSizes[std::size(kPageSizes) - 1]);
  Limits& limits = plan.node.limits;
  limits.admission = random.one_in(2) ? Admission::kAtOnce : Admission::kAtEviction;
  limits.write_bytes_per_s = 0;
  limits.write_behind_bytes = limits.store_capacity_bytes = 1ull << 40;
  limits.store_depth = 16;
}

}  // namespace

Scenario make_scenario(SeededRandom& random) {
  Scenario plan;
  plan.keys = 12 + random.below(40);
  plan.node.span_bytes = kSpan;
  // Small: everything is evicted all the time. Big: nothing ever is, and then nothing may be lost.
  plan.node.pool_bytes = random.one_in(3) ? 128 * kSpan : (4 + random.below(6)) * kSpan;
  plan.node.copy_workers = 1 + random.below(2);
  plan.node.inline_copies = random.one_in(3);
  plan.node.queue_entries = random.one_in(2) ? 2 : 64;
  plan_limits(random, plan.node.limits);
  plan.has_store = !random.one_in(6);
  plan.store.queue_capacity = random.one_in(2) ? 4 : 256;
  plan.store.segment_bytes = 64 * 1024;
  plan.store_faults = plan_store_faults(random);
  if (random.one_in(4)) plan.read_harm = {60, 60};
  if (random.one_in(2)) plan.device_faults = {30, 100, 100};
  plan.restarts_per_10k = random.one_in(2) ? 0 : static_cast<uint32_t>(3 + random.below(15));
  plan_engines(random, plan);
  plan.rings = plan_rings(random);
  if (plan.rings.used && !random.one_in(3)) plan_much_reading(random, plan);
  return plan;
}

}  // namespace kvsidecar::sim
