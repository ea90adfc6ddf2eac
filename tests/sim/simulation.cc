// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstring>

#include "sidecar/conductor/world.h"
#include "tests/sim/invariants.h"

namespace kvsidecar::sim {
namespace {

constexpr int kCalmRounds = 60, kStepsToDie = 200;
constexpr uint64_t kCalmNs = 1'000'000'000;
constexpr uint64_t kMovesPerFullLook = 32;

// Free slots are poisoned under ASAN; a killed daemon's memory is looked at all the same.
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
std::vector<uint64_t>
copy_of(std::span<const std::byte> memory) {
  std::vector<uint64_t> copy(memory.size() / 8);
  const auto* words = reinterpret_cast<const volatile uint64_t*>(memory.data());
  for (size_t i = 0; i < copy.size(); ++i) copy[i] = words[i];
  return copy;
}

// A device that copies by itself goes on when its daemon is dead.
void add_copies_in_flight(const World& world, std::vector<LateWrite>& writes) {
  for (const auto& [hash, filling] : world.fillings)
    for (size_t part = 0; part < filling->parts.size(); ++part)
      if (filling->parts[part].state == Filling::Part::kCopying)
        writes.push_back(
            {world.parts.pool->bytes(filling->slot) + filling->space->part_offsets[part],
             filling->space->fields.parts[part].bytes});
}

}  // namespace

Simulation::Simulation(uint64_t seed, const Moves* only)
    : seed_(seed), only_(only), shared_(seed), faults_(shared_.random) {
  shared_.random = chances_of(seed, kScenarioChances);
  shared_.plan = make_scenario(shared_.random);
  faults_.chances = shared_.plan.device_faults;
  faults_.in_copy = [this] {
    if (shared_.random.one_in(8)) actors_[shared_.random.below(actors_.size())]->meddle();
  };
  start_daemon();
  for (size_t i = 0; i < shared_.plan.actors.size(); ++i)
    actors_.push_back(
        std::make_unique<Actor>(shared_, static_cast<int>(i), shared_.plan.actors[i]));
}

Simulation::~Simulation() {
  faults_.in_copy = nullptr;
  faults_.chances = {};
  if (store_ != nullptr) store_->end_all();
  actors_.clear();
}

std::unique_ptr<WatchedStore> Simulation::make_store() {
  const Scenario& plan = shared_.plan;
  testing::SeededRandom& random = shared_.random;
  if (plan.rings.used)
    return std::make_unique<WatchedStore>(
        std::make_unique<RingStore>(disk_, plan.store, plan.rings, shared_.clock, random,
                                    shared_.trace),
        random);
  return std::make_unique<WatchedStore>(std::make_unique<MemoryStore>(disk_, plan.store, random),
                                        random);
}

void Simulation::start_daemon() {
  Scenario& plan = shared_.plan;
  if (plan.has_store) {
    store_ = make_store();
    store_->set_faults(plan.store_faults, plan.read_harm);
    plan.node.store = store_.get();
  }
  node_ =
      std::make_unique<testing::Node>(plan.node, remains_, shared_.clock, shared_.random, faults_);
  shared_.node = node_.get();
  shared_.scanned_at = UINT64_MAX;
  node_->conductor().scan_store();
  shared_.trace.event("daemon of epoch " + std::to_string(plan.node.epoch) + " starts");
}

Simulation::Remains Simulation::remains_now() {
  return {copy_of(remains_.chunk), remains_.namespaces, *disk_, writes_in_flight()};
}

std::vector<LateWrite> Simulation::writes_in_flight() const {
  std::vector<LateWrite> writes;
  if (store_ != nullptr) writes = store_->reads_in_flight();
  add_copies_in_flight(node_->conductor().world(), writes);
  return writes;
}

void Simulation::go_on_until(const std::function<bool()>& reached) {
  for (int i = 0; i < kStepsToDie && !reached(); ++i) {
    if (shared_.random.one_in(3))
      actors_[shared_.random.below(actors_.size())]->act();
    else
      node_->step_one(shared_.random);
    take_excuses();
  }
}

// All go on until the conductor is killed after one of its stores to a slot table; null when it
// makes none.
std::optional<Simulation::Remains> Simulation::die_in_a_turn() {
  std::optional<Remains> remains;
  uint64_t stores_left = 1 + shared_.random.below(30);  // publishing a page is some 20
  node_->pool().observe_stores([&] {
    if (stores_left > 0 && --stores_left == 0) remains = remains_now();
  });
  go_on_until([&] { return remains.has_value(); });
  node_->pool().observe_stores(nullptr);
  return remains;
}

// As by SIGKILL: what was in flight just stops. The parts are taken down in order, which moves
// memory, records and disk on; so those are put back to what they were at the kill.
void Simulation::kill_daemon() {
  const bool power = shared_.random.one_in(4);  // the machine went, not only the daemon
  std::optional<Remains> in_turn;
  if (!power && shared_.random.one_in(2))
    in_turn = die_in_a_turn();
  else if (!power)  // or while its slots are written to, rather than at rest
    go_on_until([this] { return writes_in_flight().size() >= 3; });
  shared_.trace.event(power     ? "power fails"
                      : in_turn ? "daemon is killed in a turn"
                                : "daemon is killed");
  const Remains remains = in_turn ? std::move(*in_turn) : remains_now();
  if (store_ != nullptr) store_->end_all();
  faults_.chances = {};
  // What that turn has answered was never sent.
  for (auto& actor : actors_) actor->daemon_killed(!in_turn);
  node_.reset();
  if (store_ != nullptr && store_->ring() != nullptr) rings_.add(store_->ring()->counts());
  store_.reset();
  std::memcpy(remains_.chunk.data(), remains.memory.data(), remains_.chunk.size());
  remains_.namespaces.records = remains.records.records;
  *disk_ = remains.disk;
  late_writes_ = remains.late_writes;
  if (power) {
    std::memset(remains_.chunk.data(), 0, remains_.chunk.size());
    disk_->crash(shared_.random);
    late_writes_.clear();
  }
  if (!power && shared_.random.one_in(6)) rot_memory();
  shared_.model.daemon_gone(power);
}

// Bits flip between two daemons: in pages, in keys, in the slot tables.
void Simulation::rot_memory() {
  shared_.trace.event("memory rots");
  shared_.excuses.corrupt = rotted_ = true;
  for (int i = 0; i < 40; ++i)
    remains_.chunk[shared_.random.below(remains_.chunk.size())] ^=
        static_cast<std::byte>(1 + shared_.random.below(255));
}

void Simulation::restart_daemon() {
  take_excuses();
  kill_daemon();
  ++shared_.plan.node.epoch;
  ++restarts_;
  faults_.chances = shared_.plan.device_faults;
  predecessor_gone_ = false;
  start_daemon();
}

void Simulation::land_late_writes() {
  testing::SeededRandom& random = shared_.random;
  if (predecessor_gone_) return;
  for (const LateWrite& write : late_writes_)
    if (random.one_in(4)) scribble(write, random);
  if (!random.one_in(6)) return;
  shared_.trace.event("the predecessor is gone");
  late_writes_.clear();
  predecessor_gone_ = true;
  node_->conductor().predecessor_gone();
}

void Simulation::pass_time() {
  testing::SeededRandom& random = shared_.random;
  uint64_t ns = random.below(200'000);
  if (random.one_in(20)) ns = random.below(100'000'000);
  if (random.one_in(200)) ns = random.below(10'000'000'000);
  if (random.one_in(3000)) {
    ns = 3'600'000'000'000;
    shared_.tickets.clear();  // a rank that asks a minute after its ticket's end asks anew
  }
  shared_.clock.advance_ns(ns);
  shared_.trace.event("time " + std::to_string(shared_.clock.now_ns()));
}

void Simulation::change_faults() {
  if (store_ == nullptr) return;
  testing::SeededRandom& random = shared_.random;
  MemoryFaults faults = shared_.plan.store_faults;
  faults.held = random.one_in(4);
  faults.full = random.one_in(6);
  store_->set_faults(faults, shared_.plan.read_harm);
  shared_.trace.event(std::string("store") + (faults.held ? " stalls" : " moves") +
                      (faults.full ? ", full" : ""));
  if (store_->ring() == nullptr) return;
  if (random.below(1000) < shared_.plan.rings.faults.dies) store_->ring()->kill_fuse_daemon();
}

void Simulation::one_move() {
  testing::SeededRandom& random = shared_.random;
  const uint64_t dice = random.below(10'000);
  if (dice < shared_.plan.restarts_per_10k) return restart_daemon();
  if (dice < 6000) return node_->step_one(random);
  if (dice < 9000) return actors_[random.below(actors_.size())]->act();
  if (dice < 9700) return pass_time();
  if (dice < 9800) return change_faults();
  land_late_writes();
}

void Simulation::take_excuses() {
  for (std::vector<std::string>& lines = node_->log().lines; !lines.empty(); lines.clear())
    for (const std::string& line : lines) shared_.trace.event("log " + line);
  const Counters& count = node_->conductor().counters();
  Excuses& excuses = shared_.excuses;
  excuses.evicted = excuses.evicted || count.pages_evicted.value() > 0;
  const uint64_t unavailable = store_ == nullptr ? 0 : store_->unavailable_reads();
  const bool vanished =
      store_ != nullptr && store_->ring() != nullptr && store_->ring()->counts().vanished > 0;
  excuses.corrupt = excuses.corrupt || vanished || count.pages_corrupt.value() > 0 ||
                    count.store_read_errors.value() > unavailable;
  if (count.pages_corrupt.value() > 0 && !rotted_ && !shared_.plan.store_harms())
    shared_.trace.violation("a page did not prove itself though nothing harmed it");
  excuses.trimmed = excuses.trimmed || count.segments_unlinked.value() > 0;
  if (shared_.scanned_at == UINT64_MAX && node_->conductor().gauges().scanned)
    shared_.scanned_at = shared_.trace.now();
}

void Simulation::look(bool whole) {
  take_excuses();
  const std::string wrong =
      whole ? broken_invariant(*node_, shared_.plan) : broken_sum(node_->conductor().counters());
  if (!wrong.empty()) shared_.trace.violation(wrong);
}

bool Simulation::waits() const {
  return std::any_of(actors_.begin(), actors_.end(),
                     [](const auto& actor) { return actor->waits(); });
}

void Simulation::let_time_pass() {
  for (int round = 0; round < kCalmRounds && !shared_.trace.failed(); ++round) {
    if (!node_->settle()) shared_.trace.violation("the daemon never comes to rest");
    take_excuses();
    for (auto& actor : actors_) actor->read();
    shared_.clock.advance_ns(kCalmNs);
  }
}

// Nothing fails any more and no engine asks anything new: every request must end, and then nothing
// may be left but pages. Requests end whatever the store still does or never will.
void Simulation::calm_down() {
  shared_.random = chances_of(seed_, kCalmChances);
  shared_.trace.event("calm");
  faults_.chances = {};
  if (store_ != nullptr) store_->calm();
  for (auto& actor : actors_) actor->finish();
  const bool hangs = store_ != nullptr && shared_.random.one_in(4);
  if (hangs) store_->set_faults({.held = true}, {});
  if (hangs || (store_ != nullptr && store_->holds_lost())) {
    let_time_pass();
    if (waits())
      shared_.trace.violation("a request never ended, as its store operation never does");
    shared_.trace.event("the store ends what it has");
    store_->end_all();
  }
  let_time_pass();
  if (waits()) shared_.trace.violation("a request never ended");
  for (auto& actor : actors_) actor->check_blocks();
  node_->conductor().predecessor_gone();
  std::string wrong = broken_invariant(*node_, shared_.plan);
  if (wrong.empty()) wrong = broken_rest(*node_);
  if (!wrong.empty()) shared_.trace.violation("at rest: " + wrong);
  for (auto& actor : actors_) actor->die("the end");
  node_->settle();
  wrong = broken_end(*node_);
  if (!wrong.empty()) shared_.trace.violation("at the end: " + wrong);
}

Outcome Simulation::run() {
  Outcome outcome;
  const size_t moves = only_ != nullptr ? only_->size() : kStepsMax;
  for (size_t i = 0; i < moves && !shared_.trace.failed(); ++i) {
    const uint32_t move = only_ != nullptr ? (*only_)[i] : static_cast<uint32_t>(i);
    shared_.random = chances_of(seed_, move);
    one_move();
    look(only_ != nullptr || move % kMovesPerFullLook == 0);
    ++outcome.moves;
  }
  evicted_ = node_->conductor().counters().pages_evicted.value();
  if (!shared_.trace.failed()) calm_down();
  outcome.violation = shared_.trace.first_violation();
  if (shared_.trace.failed()) outcome.story = shared_.trace.story();
  outcome.hash = shared_.trace.hash();
  outcome.events = shared_.trace.now();
  outcome.restarts = restarts_;
  outcome.writes = shared_.model.writes();
  outcome.evicted = evicted_;
  if (store_ != nullptr && store_->ring() != nullptr) rings_.add(store_->ring()->counts());
  outcome.rings = rings_;
  return outcome;
}

}  // namespace kvsidecar::sim
