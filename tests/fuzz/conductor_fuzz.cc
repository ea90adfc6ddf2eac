// SPDX-License-Identifier: Apache-2.0
// A hostile session against a whole node in one thread: raw cells, records and requests with
// changed bytes, positions, claim words, fences and fds at any time (conductor_input.h). Nothing
// crashes; a neighbour in another namespace is answered each time, gets only the bytes it put, and
// its memory is touched by nothing else; the simulator's invariants hold meanwhile; and when all
// are gone, nothing of theirs is left.
#include <unistd.h>

#include <memory>

#include "sidecar/store/memory_store.h"
#include "tests/fuzz/conductor_input.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/sim/invariants.h"
#include "tests/support/engine.h"

namespace kvsidecar::fuzz {
namespace {

using testing::Engine;

constexpr uint64_t kPartBytes = 4096;
constexpr uint32_t kBlocks = 8;
constexpr uint64_t kMemoryBytes = kBlocks * kPartBytes;

class Attacker {
 public:
  Attacker(testing::Node& node, testing::FakeClock& clock, const Permissions& permissions)
      : node_(node), clock_(clock), permissions_(permissions) {
    open();
  }

  void move(Move move, FuzzInput& in) {
    switch (move) {
      case Move::kRawRecord: {
        const uint8_t bytes = in.take<uint8_t>();
        const auto head = in.take<RecordHead>();
        return write(head, in.take_bytes(bytes));
      }
      case Move::kRecord: {
        const uint8_t type = in.take<uint8_t>();
        const uint16_t bytes = in.take<uint16_t>();
        return send(type, in.take_bytes(bytes));
      }
      case Move::kRequest:
        return request(in);
      case Move::kPublish: {
        const uint8_t count = in.take<uint8_t>();
        return memory_.submission_head().published.store(count == 255 ? in.take<uint64_t>()
                                                                      : written_);
      }
      case Move::kConsume:
        return in.take<uint8_t>() == 0 ? read_answers()
                                       : memory_.cell_page().consumed.store(in.take<uint64_t>());
      case Move::kClaim:
        return memory_.claim(in.take<uint16_t>() % Engine::kGeometry.claims)
            ->store(in.take<uint64_t>());
      case Move::kFence:
        return memory_.fence(in.take<uint8_t>() % Engine::kGeometry.fences)
            ->store(in.take<uint64_t>());
      case Move::kFd:
        return offer(in);
      case Move::kMemory:
        engine_->memory()[in.take<uint16_t>() % kMemoryBytes] = in.take<std::byte>();
        return;
      case Move::kReopen:
        return open();
      default:
        return;
    }
  }
  void die() { engine_.reset(); }

 private:
  void open() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(node_, clock_, kMemoryBytes, permissions_);
    memory_ = engine_->session_memory();
    read_ = 0;
    engine_->timeout_ns = 1'000'000'000;
    const auto answered = [&](uint64_t number) {
      const testing::Answer answer = engine_->wait(number);
      return answer.status() == Code::kOk ? answer.head.handle : 0;
    };
    // Any of these may be refused after a clear, a drain or with a full pool.
    space_ = answered(engine_->attach(testing::fields_of(kPartBytes)));
    region_ = answered(engine_->register_region());
    layout_ = answered(engine_->register_layout(region_, kBlocks, kPartBytes));
    written_ = memory_.submission_head().published.load();
    last_request_ = written_ + 100;
    read_answers();
  }

  // Handles that were given are what the next requests name.
  void read_answers() {
    const uint64_t published = memory_.info().published.load();
    for (; read_ < published; ++read_) {
      CompletionHead head;
      std::memcpy(&head,
                  memory_.completion + sizeof(InfoPage) +
                      (read_ & (memory_.geometry.completion_cells - 1)) * kCompletionCellBytes,
                  sizeof head);
      if (head.status != 0 || head.handle == 0) continue;
      const auto type = static_cast<RecordType>(head.type);
      if (type == RecordType::kAttach) space_ = head.handle;
      if (type == RecordType::kRegisterRegion) region_ = head.handle;
      if (type == RecordType::kRegisterLayout) layout_ = head.handle;
      if (type == RecordType::kLookup) lease_ = head.handle;
    }
    memory_.cell_page().consumed.store(published);
  }

  void write(RecordHead head, Bytes payload) {
    const Geometry& g = memory_.geometry;
    std::byte* cell = memory_.submission + sizeof(SubmissionHead) +
                      (written_ & (g.submission_cells - 1)) * kSubmissionCellBytes;
    std::memcpy(cell, &head, sizeof head);
    const size_t room = kSubmissionCellBytes - sizeof head;
    if (!payload.empty())
      std::memcpy(cell + sizeof head, payload.data(), std::min(payload.size(), room));
    ++written_;
  }

  void send(uint8_t type, Bytes payload) {
    RecordHead head{};
    head.type = type;
    head.request = ++last_request_;
    head.deadline_ns = clock_.now_ns() + 1'000'000'000;
    if (payload.size() <= kSubmissionCellBytes - sizeof head) {
      head.length = static_cast<uint32_t>(payload.size());
      return write(head, payload);
    }
    const size_t block = written_ % memory_.geometry.arena_blocks;
    head.arena_offset = static_cast<uint32_t>(block * kArenaBlockBytes);
    head.arena_length = static_cast<uint32_t>(payload.size());
    std::memcpy(memory_.submission + arena_start(memory_.geometry) + head.arena_offset,
                payload.data(), payload.size());
    write(head, {});
  }

  void request(FuzzInput& in) {
    const uint8_t type = in.take<uint8_t>(), number = in.take<uint8_t>();
    const uint32_t block = in.take<uint8_t>();
    const uint8_t flags = in.take<uint8_t>(), edits = in.take<uint8_t>();
    Encoded record;
    if (!encode_request(type, number, block, flags, record)) return;
    for (uint8_t i = 0; i < edits && !in.empty(); ++i) {
      const uint16_t offset = in.take<uint16_t>();
      record[offset % record.size()] = in.take<std::byte>();
    }
    send(type, record);
  }

  bool encode_request(uint8_t type, uint8_t number, uint32_t block, uint8_t flags, Encoded& out) {
    const uint32_t count = (flags & kThree) != 0 ? 3 : 1;
    std::vector<std::byte> bytes;
    std::vector<Block> blocks;
    std::vector<RunItem> items;
    std::vector<Run> runs;
    for (uint32_t i = 0; i < count; ++i) {
      const std::vector<std::byte> key = testing::key_of(number + i);
      bytes.insert(bytes.end(), key.begin(), key.end());
      const uint32_t claim = (number + i) % Engine::kGeometry.claims;
      blocks.push_back({layout_, block + i, claim});
      items.push_back({i, 1, claim, 0});
      runs.push_back({region_, uint64_t{block + i} * kPartBytes, kPartBytes});
    }
    const Keys keys{Bytes(bytes), 32};
    const auto fill = [&](auto& r) {
      r.namespace_handle = space_;
      r.keys = keys;
      if (flags & kRuns)
        r.items = {{}, items, runs};
      else
        r.items.blocks = blocks;
      if (flags & kFenced) r.fence = {number % Engine::kGeometry.fences, 0, 1};
      for (uint32_t i = 0; i < count; ++i)
        memory_.claim(items[i].claim)
            ->store(claim_value(last_request_ + 1, static_cast<uint16_t>(i), ClaimState::kQueued));
    };
    const PoolPolicy policy{space_, HitPolicy::kAllPages, 0};
    switch (static_cast<RecordType>(type)) {
      case RecordType::kPut: {
        PutRequest r;
        fill(r);
        r.durable = (flags & kDurable) != 0;
        return encode(r, out), true;
      }
      case RecordType::kGet: {
        GetRequest r;
        fill(r);
        r.lease = (flags & kLease) != 0 ? lease_ : 0;
        r.progress = (flags & kPrefetch) != 0 ? block : kNoIndex;
        return encode(r, out), true;
      }
      case RecordType::kLookup: {
        LookupRequest r{keys, 0, count, {&policy, 1}, 0, 0, (flags & kPrefetch) != 0};
        r.ticket = (flags & kGroup) != 0 ? number % 3u : 0;
        r.lease_ms = (flags & kLease) != 0 ? 500 : 0;
        return encode(r, out), true;
      }
      default:
        return encode_other(type, number, block, flags, out);
    }
  }

  bool encode_other(uint8_t type, uint8_t number, uint32_t block, uint8_t flags, Encoded& out) {
    const std::vector<std::byte> key = testing::key_of(number);
    const Keys keys{Bytes(key), 32};
    switch (static_cast<RecordType>(type)) {
      case RecordType::kDelete:
        return encode(DeleteRequest{space_, keys}, out), true;
      case RecordType::kRegisterRegion:
        return encode(RegisterRegionRequest{number, 0, kMemoryBytes, 0, block * 8, 0}, out), true;
      case RecordType::kRegisterLayout: {
        const LayoutRun part{region_, 0, kPartBytes, kPartBytes};
        return encode(RegisterLayoutRequest{block, {&part, 1}}, out), true;
      }
      case RecordType::kUnregister:
        return encode(UnregisterRequest{(flags & kRuns) != 0 ? region_ : layout_}, out), true;
      case RecordType::kCancel:
        return encode(CancelRequest{last_request_ - number}, out), true;
      case RecordType::kRelease:
        return encode(ReleaseRequest{(flags & kLease) != 0 ? lease_ : block}, out), true;
      case RecordType::kClear:
        return encode(ClearRequest{space_, {}}, out), true;
      case RecordType::kStat:
        return encode(StatRequest{static_cast<StatWhat>(block % 4), number}, out), true;
      case RecordType::kWhy:
        return encode(WhyRequest{{}, key, block}, out), true;
      case RecordType::kAttach: {
        const auto identity = encode_identity(testing::fields_of(kPartBytes, 1 + number % 2));
        AttachRequest r;
        r.identity = *identity;
        r.detach = (flags & kDurable) != 0;
        if (flags & kGroup) {
          r.group = Bytes(key).first(16);
          r.group_size = 2;
          r.rank = static_cast<uint16_t>(block % 2);
        }
        if (flags & kLease) r.rank = kCoordinatorRank;
        return encode(r, out), true;
      }
      default:
        return false;
    }
  }

  void offer(FuzzInput& in) {
    const uint64_t token = in.take<uint8_t>();
    UniqueFd fd;
    switch (in.take<uint8_t>() % 4) {
      case 0:
        fd = make_sealed_memfd("fuzz", kMemoryBytes).take();
        break;
      case 1:
        fd = make_sealed_memfd("fuzz", 4096).take();
        break;
      case 2:
        fd = make_eventfd().take();
        break;
      default:
        fd = UniqueFd(::dup(2));
    }
    (void)node_.conductor().offer_fd(engine_->session(), token, std::move(fd));
  }

  testing::Node& node_;
  testing::FakeClock& clock_;
  const Permissions permissions_;
  std::unique_ptr<Engine> engine_;
  SessionMemory memory_;
  Handle space_ = 0, region_ = 0, layout_ = 0, lease_ = 0;
  uint64_t written_ = 0, read_ = 0, last_request_ = 0;
};

// Another session, of another namespace, that keeps to the rules.
class Neighbour {
 public:
  Neighbour(testing::Node& node, testing::FakeClock& clock) : engine_(node, clock, kMemoryBytes) {
    engine_.set_up(testing::fields_of(kPartBytes, 1, "neighbour"), kBlocks);
  }

  void use(uint64_t key) {
    testing::fill_page(engine_.block(0), key);
    testing::fill_page(engine_.block(2), key + 1'000);
    (void)engine_.wait(engine_.put({}, {key}, engine_.layout, {0}));
    (void)engine_.wait(engine_.lookup({}, {key}));
    const testing::Answer got = engine_.wait(engine_.get({}, {key}, engine_.layout, {1}));
    const bool ok = got.status() == Code::kOk && got.items.at(0) == Code::kOk;
    if (ok) require(testing::holds_page(engine_.block(1), key), "a get gives what was put");
    require(testing::holds_page(engine_.block(0), key), "the source of a put is only read");
    require(testing::holds_page(engine_.block(2), key + 1'000), "other blocks stay as they are");
  }

 private:
  Engine engine_;
};

void require_none(const std::string& broken) { require(broken.empty(), "invariant:", broken); }

void play(FuzzInput& in, testing::Node& node, testing::FakeClock& clock, Attacker& attacker,
          Neighbour& neighbour, const sim::Scenario& plan) {
  while (!in.empty()) {
    const auto move = static_cast<Move>(in.take<uint8_t>() % static_cast<uint8_t>(Move::kMoves));
    if (move == Move::kSteps) {
      for (int n = in.take<uint8_t>() % 16; n >= 0; --n) node.step();
      require_none(sim::broken_invariant(node, plan));
    } else if (move == Move::kTime) {
      clock.advance_ns(uint64_t{in.take<uint32_t>()} * 1'000);
    } else if (move == Move::kNeighbour) {
      neighbour.use(in.take<uint8_t>());
    } else {
      attacker.move(move, in);
    }
  }
}

// As the simulator plans them, from small pools in which everything is evicted to limits of one.
sim::Scenario make_plan(uint8_t seed, uint8_t options) {
  testing::SeededRandom random(seed);
  sim::Scenario plan = sim::make_scenario(random);
  plan.node.pool_bytes = std::min(plan.node.pool_bytes, 16 * plan.node.span_bytes);
  plan.node.inline_copies = (options & 1) != 0;
  plan.node.queue_entries = (options & 2) != 0 ? 2 : 64;
  if (options & 16) plan.node.limits.namespaces_max = 3;
  return plan;
}

// What waits for time, a store's allowance too, gets it; and a store that is late, its steps.
void come_to_rest(testing::Node& node, testing::FakeClock& clock) {
  constexpr int kLateStepsMax = 64;
  for (int hours = 0; hours < 200; ++hours) {
    clock.advance_ns(3'600'000'000'000);
    for (int n = 0; n < kLateStepsMax; ++n) node.step();
    require(node.settle(), "a node without sessions comes to rest");
    if (sim::broken_rest(node).empty()) return;
  }
}

void run(FuzzInput in) {
  const uint8_t options = in.take<uint8_t>();
  testing::FakeClock clock;
  testing::SeededRandom random(1), store_random(2);
  testing::NodeRemains remains;
  sim::Scenario plan = make_plan(in.take<uint8_t>(), options);
  MemoryStore store(std::make_shared<MemoryDisk>(), plan.store, store_random);
  store.set_faults(plan.store_faults);
  plan.node.store = (options & 4) != 0 ? &store : nullptr;
  Permissions permissions = testing::everything();
  permissions.clear = permissions.admin = (options & 8) != 0;
  testing::Node node(plan.node, remains, clock, random);
  if (plan.node.store != nullptr) node.conductor().scan_store();
  {
    Neighbour neighbour(node, clock);
    Attacker attacker(node, clock, permissions);
    play(in, node, clock, attacker, neighbour, plan);
    node.settle();
    neighbour.use(7);
    attacker.die();
  }
  come_to_rest(node, clock);
  require_none(sim::broken_invariant(node, plan));
  require_none(sim::broken_rest(node));
  require_none(sim::broken_end(node));
  const Gauges left = node.conductor().gauges();
  require(left.sessions == 0 && left.leases == 0 && left.operations == 0 && left.fillings == 0 &&
              left.groups == 0,
          "nothing of a session outlives it:", node.conductor().status_json());
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kvsidecar::fuzz::run(kvsidecar::fuzz::FuzzInput(data, bytes));
  return 0;
}
