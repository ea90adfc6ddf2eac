// SPDX-License-Identifier: Apache-2.0
// A hostile session against a whole node in one thread: raw cells, records and requests with
// changed bytes, positions, claim words, fences and fds at any time (conductor_input.h). Nothing
// crashes; a neighbour in another namespace is answered each time, gets only the bytes it put, and
// its memory is touched by nothing else; and when all are gone, nothing of theirs is left.
#include <unistd.h>

#include <memory>

#include "sidecar/store/memory_store.h"
#include "tests/fuzz/conductor_input.h"
#include "tests/fuzz/fuzz_input.h"
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
        return memory_.cell_page().consumed.store(
            in.take<uint8_t>() == 0 ? memory_.info().published.load() : in.take<uint64_t>());
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
    const std::vector<std::byte> key = testing::key_of(number);
    const Keys keys{Bytes(key), 32};
    const uint32_t claim = number % Engine::kGeometry.claims;
    const Block one{layout_, block, claim};
    const RunItem item{0, 1, claim, 0};
    const Run run{region_, uint64_t{block} * kPartBytes, kPartBytes};
    const auto fill = [&](auto& r) {
      r.namespace_handle = space_;
      r.keys = keys;
      if (flags & kRuns)
        r.items = {{}, {&item, 1}, {&run, 1}};
      else
        r.items.blocks = {&one, 1};
      if (flags & kFenced) r.fence = {number % Engine::kGeometry.fences, 0, 1};
      memory_.claim(claim)->store(claim_value(last_request_ + 1, 0, ClaimState::kQueued));
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
        r.lease = (flags & kLease) != 0 ? block : 0;
        r.progress = (flags & kPrefetch) != 0 ? block : kNoIndex;
        return encode(r, out), true;
      }
      case RecordType::kLookup:
        return encode(LookupRequest{keys,
                                    block,
                                    block + 1,
                                    {&policy, 1},
                                    number % 3u,
                                    (flags & kLease) != 0 ? 500u : 0u,
                                    (flags & kPrefetch) != 0},
                      out),
               true;
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
        return encode(ReleaseRequest{block}, out), true;
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
        r.rank = (flags & kLease) != 0 ? kCoordinatorRank : uint16_t{0};
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
  Handle space_ = 0, region_ = 0, layout_ = 0;
  uint64_t written_ = 0, last_request_ = 0;
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

void run(FuzzInput in) {
  const uint8_t options = in.take<uint8_t>();
  testing::FakeClock clock;
  testing::SeededRandom random(1), store_random(2);
  testing::NodeRemains remains;
  MemoryStore store(std::make_shared<MemoryDisk>(), {}, store_random);
  testing::NodeOptions node_options;
  node_options.pool_bytes = 512 * 1024;
  node_options.span_bytes = 64 * 1024;
  node_options.inline_copies = (options & 1) != 0;
  node_options.queue_entries = (options & 2) != 0 ? 2 : 64;
  node_options.store = (options & 4) != 0 ? &store : nullptr;
  Permissions permissions = testing::everything();
  permissions.clear = permissions.admin = (options & 8) != 0;
  testing::Node node(node_options, remains, clock, random);
  {
    Neighbour neighbour(node, clock);
    Attacker attacker(node, clock, permissions);
    while (!in.empty()) {
      const auto move = static_cast<Move>(in.take<uint8_t>() % static_cast<uint8_t>(Move::kMoves));
      if (move == Move::kSteps)
        for (int n = in.take<uint8_t>() % 16; n >= 0; --n) node.step();
      else if (move == Move::kTime)
        clock.advance_ns(uint64_t{in.take<uint32_t>()} * 1'000);
      else if (move == Move::kNeighbour)
        neighbour.use(in.take<uint8_t>());
      else
        attacker.move(move, in);
    }
    node.settle();
    neighbour.use(7);
    attacker.die();
  }
  clock.advance_ns(3'600'000'000'000);
  require(node.settle(), "a node without sessions comes to rest");
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
