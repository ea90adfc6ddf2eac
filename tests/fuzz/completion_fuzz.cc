// SPDX-License-Identifier: Apache-2.0
// A client's core against a hostile daemon: its completions, positions and progress words are
// arbitrary (completion_input.h), while it moves claims as claims are moved. Whatever it says: no
// item is free, and no claim word or staging is lent again, while the item's claim says COPYING; a
// get that is OK was copied to its end; what was given up is never copied afterwards; and once the
// daemon is dead every operation has ended and nothing of the client's is still lent.
#include <algorithm>
#include <map>

#include "clients/cpp/core.h"
#include "tests/fuzz/completion_input.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/hostile_daemon.h"

namespace kvsidecar::fuzz {
namespace {

using clientlib::Core;
using clientlib::Operation;

constexpr uint64_t kStagingBytes = 16 * 4096;
constexpr size_t kOperationsMax = 64, kDaemonsMax = 4;

class World {
 public:
  explicit World(uint8_t options)
      : crowded_((options & 1) != 0), closes_((options & 2) != 0), staging_(kStagingBytes) {
    core_.staging = clientlib::StagingSpace(kStagingBytes);
    core_.staging_base = staging_.data();
    core_.staging_region = 1;
    core_.objects.regions[1].handle = 9;
    core_.objects.fence_values = {1};
    reconnect();
  }

  void step(Step step, FuzzInput& in) {
    switch (step) {
      case Step::kBegin:
        begin(in);
        break;
      case Step::kTick:
        now_ns_ += uint64_t{in.take<uint16_t>()} * 100'000;
        core_.tick(now_ns_);
        break;
      case Step::kPoll:
        while (!core_.events.empty()) {
          Operation* op = core_.find(core_.events.front().op);
          require(op != nullptr, "an event is of an operation");
          core_.forget_event(*op);
        }
        break;
      case Step::kCancel:
      case Step::kRevoke:
      case Step::kErase:
        give_up(step, in);
        break;
      case Step::kLose: {
        const bool dead = in.take<uint8_t>() % 2 == 1;
        if (core_.current) core_.lose(core_.current, dead, now_ns_);
        if (dead) daemons_.back()->die();
        break;
      }
      case Step::kReconnect:
        if (!core_.current && daemons_.size() < kDaemonsMax) reconnect();
        break;
      default:
        daemons_.back()->step(step, in);
        break;
    }
    look();
  }

  void end() {
    if (closes_ && core_.give_up_all(now_ns_)) {
      for (const auto& daemon : daemons_)
        for (const auto& [number, i] : daemon->copying())
          require(
              daemon->lent.at(number).type == RecordType::kPut || daemon->lent.at(number).staged,
              "a client that may be closed has nothing that a daemon writes");
    }
    look();
    for (const auto& daemon : daemons_) {
      daemon->die();
      core_.lose(daemon->link, true, now_ns_);
      look();
    }
    core_.tick(now_ns_);
    for (const uint64_t id : ids_) {
      Operation* op = core_.find(id);
      if (op == nullptr) continue;
      require(op->finished, "all operations end with the daemon");
      require(core_.erase(*op, now_ns_), "what has ended can be freed");
    }
    require(core_.operations() == 0 && core_.events.empty() && core_.fading.empty(),
            "nothing of the client's is left");
    require(core_.staging.take(kStagingBytes).has_value(), "all staging came back");
  }

 private:
  void reconnect() {
    daemons_.push_back(std::make_unique<HostileDaemon>(crowded_));
    core_.current = daemons_.back()->link;
    core_.current->ready = true;
  }

  Operation* pick(FuzzInput& in) {
    const uint8_t number = in.take<uint8_t>();
    return ids_.empty() ? nullptr : core_.find(ids_[number % ids_.size()]);
  }

  void give_up(Step step, FuzzInput& in) {
    Operation* op = pick(in);
    const uint8_t item = step == Step::kRevoke ? in.take<uint8_t>() : 0;
    if (op == nullptr || op->freed) return;
    std::vector<uint8_t> free(op->items.size(), 0);
    if (step == Step::kCancel) core_.cancel(*op, now_ns_, free.data());
    if (step == Step::kRevoke && op->has_claims()) {
      free[item % op->count] = core_.revoke(*op, item % op->count) ? 1 : 0;
      core_.finish_revoked(*op, now_ns_);
    }
    for (uint32_t i = 0; i < free.size() && op->has_claims(); ++i)
      if (free[i] != 0) require_free(op->id, i, "what is reported free is free");
    if (step == Step::kErase) (void)core_.erase(*op, now_ns_);
  }

  void begin(FuzzInput& in) {
    const auto kind = static_cast<Kind>(in.take<uint8_t>() % static_cast<uint8_t>(Kind::kKinds));
    const uint8_t count = in.take<uint8_t>(), flags = in.take<uint8_t>();
    const uint8_t timeout_ms = in.take<uint8_t>();
    if (!core_.current || ids_.size() >= kOperationsMax) return;
    auto op = std::make_unique<Operation>();
    op->link = core_.current;
    op->deadline_ns = now_ns_ + (timeout_ms + 1) * uint64_t{1'000'000};
    op->namespace_handle = 1;
    op->key_bytes = 32;
    op->count = kind == Kind::kLookup && (flags & kMany) != 0 ? 2'000u + count : 1u + count % 96u;
    op->keys.resize(size_t{32} * op->count);
    describe(kind, flags, *op);
    ids_.push_back(core_.begin(std::move(op), now_ns_).id);
  }

  void describe(Kind kind, uint8_t flags, Operation& op) {
    const bool staged = kind == Kind::kStagedPut || kind == Kind::kStagedGet;
    switch (kind) {
      case Kind::kPut:
      case Kind::kStagedPut:
        op.type = RecordType::kPut;
        break;
      case Kind::kGet:
      case Kind::kStagedGet:
      case Kind::kRunsGet:
        op.type = RecordType::kGet;
        op.layered = (flags & kLayered) != 0;
        break;
      case Kind::kLookup:
        op.type = RecordType::kLookup;
        op.pools = {{1, HitPolicy::kAllPages, 0}};
        op.ticket = flags & kTicket;
        return;
      case Kind::kDelete:
        op.type = RecordType::kDelete;
        return;
      case Kind::kStat:
        op.type = RecordType::kStat;
        return;
      case Kind::kWhy:
        op.type = RecordType::kWhy;
        op.keys.resize(32);
        return;
      default:
        op.type = kind == Kind::kRelease ? RecordType::kRelease
                  : kind == Kind::kClear ? RecordType::kClear
                                         : RecordType::kRegisterRegion;
        op.internal = kind == Kind::kRegion;
        op.ready.resize(64);
        return;
    }
    for (uint32_t i = 0; i < op.count; ++i) {
      if (staged) {
        op.pieces.push_back({memory_, sizeof memory_});
        op.piece_ends.push_back(i + 1);
      } else if (kind == Kind::kRunsGet) {
        op.run_items.push_back({i, 1, 0, 0});
        op.runs.push_back({1, 0, 4096});
      } else {
        op.blocks.push_back({1, i, 0});
      }
    }
    op.staged = staged;
  }

  // What the core did since: new records lend no word and no staging that is still written; what
  // the daemon copies still belongs to it.
  void look() {
    for (const auto& daemon : daemons_) {
      for (const auto& [number, record] : daemon->link->records)
        if (daemon->is_new(number)) lend(*daemon, number, record);
      daemon->looked();
    }
    for (const auto& daemon : daemons_) {
      for (const auto& [number, i] : daemon->copying()) {
        const HostileDaemon::Lent& lent = daemon->lent.at(number);
        if (!lent.staged) require_taken(lent.op, lent.first + i);
      }
    }
    for (const uint64_t id : ids_) check_results(id);
  }

  void lend(HostileDaemon& daemon, uint64_t number, const clientlib::Record& record) {
    if (record.type != RecordType::kPut && record.type != RecordType::kGet) return;
    HostileDaemon::Lent lent{record.op, record.type, record.first, !record.slots.empty(), {}};
    for (uint32_t i = 0; i < record.count; ++i) {
      const uint64_t slot = lent.staged ? record.slots[i].offset : 0;
      lent.items.push_back({record.claims[i], slot, false});
      for (const auto& other : daemons_)
        require(!other->still_writes(other.get() == &daemon, lent.items[i], lent.staged),
                "what is still copied is not lent again");
      where_[{record.op, record.first + i}] = {&daemon, number, i};
    }
    daemon.lent.emplace(number, std::move(lent));
  }

  void require_taken(uint64_t id, uint32_t item) {
    Operation* op = core_.find(id);
    require(op != nullptr && !op->finished && op->items[item] == clientlib::kUnanswered,
            "an item is taken while its claim says COPYING");
  }

  void require_free(uint64_t id, uint32_t item, const char* property) {
    const auto found = where_.find({id, item});
    if (found == where_.end()) return;
    const auto& [daemon, number, i] = found->second;
    require(daemon->lent.at(number).staged || !daemon->is_copying(number, i), property);
  }

  void check_results(uint64_t id) {
    Operation* op = core_.find(id);
    if (op == nullptr) return;
    require(op->unanswered <= std::max(op->count, 1u), "no more answers are missing than items");
    require(op->finished || core_.next_deadline_ns() <= op->look_at_ns,
            "what hasn't ended is looked at again");
    const uint64_t progress = core_.progress(*op);
    if (!op->has_claims()) return;
    uint32_t missing = 0;
    for (uint32_t item = 0; item < op->count; ++item) {
      const uint8_t status = op->items[item];
      missing += status == clientlib::kUnanswered ? 1 : 0;
      require(status == clientlib::kUnanswered || status < kCodesMax, "a status is a known one");
      if (op->type != RecordType::kGet || status != static_cast<uint8_t>(Code::kOk)) continue;
      const auto& [daemon, number, i] = where_.at({id, item});
      require(daemon->lent.at(number).items[i].done, "a get that is OK was copied to its end");
    }
    require(missing == op->unanswered, "items without an answer are counted");
    require(op->finished == (missing == 0), "an operation ends with its last item");
    const bool all = std::all_of(op->items.begin(), op->items.end(), [](uint8_t item) {
      return item == static_cast<uint8_t>(Code::kOk);
    });
    if (op->finished)
      require(progress == (all && op->type == RecordType::kGet ? UINT64_MAX : 0),
              "all layers are done when all items are OK, else none");
  }

  struct Place {
    HostileDaemon* daemon;
    uint64_t number;
    uint32_t item;
  };
  const bool crowded_, closes_;
  uint64_t now_ns_ = 1'000'000'000;
  std::vector<std::byte> staging_;
  std::byte memory_[1500] = {};
  Core core_;
  std::vector<std::unique_ptr<HostileDaemon>> daemons_;
  std::vector<uint64_t> ids_;
  std::map<std::pair<uint64_t, uint32_t>, Place> where_;
};

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar::fuzz;
  FuzzInput in(data, bytes);
  World world(in.take<uint8_t>());
  for (int steps = 0; steps < 400 && !in.empty(); ++steps)
    world.step(static_cast<Step>(in.take<uint8_t>() % static_cast<uint8_t>(Step::kSteps)), in);
  world.end();
  return 0;
}
