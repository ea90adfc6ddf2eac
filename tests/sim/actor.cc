// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/actor.h"

namespace kvsidecar::sim {
namespace {

constexpr size_t kPendingMax = 10, kPendingDeafMax = 40;  // more than it has credit for
constexpr uint64_t kEchoBytes = 4096;                     // before the blocks

uint64_t rounded(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Actor::Actor(Shared& shared, int number, ActorPlan plan)
    : shared_(shared), random_(shared.random), number_(number), plan_(std::move(plan)) {}

Actor::~Actor() = default;

void Actor::violation(const std::string& text) { shared_.trace.violation(name() + ": " + text); }

void Actor::act() {
  if (engine_ == nullptr) {
    if (random_.one_in(4)) set_up();
    return;
  }
  if (!shared_.node->conductor().session_alive(engine_->session())) {
    if (!foul_) violation("its session was ended though it did nothing foul");
    return die("the daemon ended its session");
  }
  if (foul_) return random_.one_in(30) ? die("after it was foul") : void();
  if (deaf_moves_ > 0 && --deaf_moves_ > 0)
    return pending_.size() < kPendingDeafMax ? move() : void();
  read();
  if (stage_ < plan_.spaces.size() * 2 + 1) {
    if (random_.one_in(200)) return die("while it sets up");
    return set_up();
  }
  if (plan_.deaf_at_times && random_.one_in(150)) deaf_moves_ = 60;
  if (pending_.size() < kPendingMax || !open_lookup_.empty())
    move();
  else
    random_.one_in(2) ? signal_some(false) : revoke_some();
}

// One step: attach each space, register the region, lay out each space.
void Actor::set_up() {
  if (engine_ == nullptr) {
    uses_.clear();
    uint64_t bytes = kEchoBytes;
    for (const int space : plan_.spaces) {
      Use use;
      use.space = space;
      use.part =
          shared_.plan.spaces[static_cast<size_t>(space)].fields.parts.size() > 1 ? plan_.part : 0;
      use.part_bytes = shared_.plan.spaces[static_cast<size_t>(space)].fields.parts[use.part].bytes;
      use.offset = bytes;
      bytes += rounded(kBlocks * use.part_bytes);
      uses_.push_back(std::move(use));
    }
    engine_ = std::make_unique<testing::Engine>(*shared_.node, shared_.clock, bytes);
    stage_ = 0;
    shared_.trace.event(name() + " opens session " + std::to_string(engine_->session()));
    return send_set_up();
  }
  if (!open_lookup_.empty()) return send_lookup_record(open_lookup_head_.request);
  if (set_up_request_ == 0) return send_set_up();
  const auto answer = engine_->answer(set_up_request_);
  if (!answer.has_value()) return;
  if (set_up_answered(*answer)) ++stage_;
  if (engine_ != nullptr && stage_ < plan_.spaces.size() * 2 + 1) send_set_up();
}

void Actor::send_set_up() {
  const size_t spaces = plan_.spaces.size();
  if (stage_ < spaces) {
    AttachRequest more;
    static constexpr std::array<std::byte, 16> kGroup{std::byte{7}};
    if (plan_.grouped) {
      more.group = kGroup;
      more.group_size = 2;
      more.rank = plan_.part;
    }
    more.coordinate.tp = static_cast<uint16_t>(uses_[stage_].part);
    more.description_bytes_max = plan_.description_bytes_max;
    const auto space = static_cast<size_t>(uses_[stage_].space);
    cleared_before_ = shared_.model.generation(uses_[stage_].space);
    set_up_request_ = engine_->attach(shared_.plan.spaces[space].fields, more);
  } else if (stage_ == spaces) {
    set_up_request_ = engine_->register_region();
  } else {
    const Use& use = uses_[stage_ - spaces - 1];
    std::vector<LayoutRun> runs;
    const uint64_t piece = use.part_bytes / plan_.runs / 8 * 8;
    for (uint32_t r = 0; r < plan_.runs; ++r) {
      const uint64_t length = r + 1 < plan_.runs ? piece : use.part_bytes - r * piece;
      runs.push_back({region_, use.offset + r * piece, use.part_bytes, length});
    }
    set_up_request_ =
        engine_->send(RecordType::kRegisterLayout, RegisterLayoutRequest{kBlocks, runs});
  }
  shared_.trace.event(name() + " set-up stage " + std::to_string(stage_));
}

bool Actor::set_up_answered(const testing::Answer& answer) {
  const size_t spaces = plan_.spaces.size();
  shared_.trace.event(name() + " set-up " + std::string(code_name(answer.status())));
  if (answer.status() != Code::kOk) {
    // A rank whose last session is not ended yet is refused; a region's import may fail.
    if (stage_ > spaces) violation("layout refused: " + answer.text);
    return false;
  }
  if (stage_ < spaces) {
    Use& use = uses_[stage_];
    use.handle = answer.head.handle;
    use.generation = answer.head.value;
    if (use.generation < cleared_before_) violation("attached at a generation that was cleared");
    shared_.model.generation_seen(use.space, use.generation);
  } else if (stage_ == spaces) {
    region_ = answer.head.handle;
    for (Use& use : uses_) {
      if (use.blocks.any()) continue;  // the region was unregistered; its memory is as it was
      use.blocks =
          Blocks(engine_->memory().subspan(use.offset, kBlocks * use.part_bytes), use.part_bytes);
      for (uint32_t block = 0; block < kBlocks; ++block)
        use.blocks.write(block, shared_.model.new_stamp());
    }
  } else {
    uses_[stage_ - spaces - 1].layout = answer.head.handle;
  }
  return true;
}

void Actor::read() {
  if (engine_ == nullptr) return;
  for (auto at = pending_.begin(); at != pending_.end();) {
    const auto answer = engine_->answer(at->request);
    if (!answer.has_value()) {
      ++at;
      continue;
    }
    Pending pending = std::move(*at);
    at = pending_.erase(at);
    std::string text = name() + " answer " + std::to_string(pending.request) + " " +
                       std::string(code_name(answer->status()));
    for (const Code code : answer->items) text += " " + std::string(code_name(code));
    for (const uint8_t place : answer->places) text += " " + std::to_string(place);
    shared_.trace.event(text);
    answered(pending, *answer);
  }
}

bool Actor::waits() const {
  if (engine_ == nullptr || foul_) return false;
  const bool setting_up = stage_ < plan_.spaces.size() * 2 + 1;
  const bool asked = setting_up && set_up_request_ != 0;
  return !pending_.empty() || (asked && !engine_->answer(set_up_request_).has_value());
}

void Actor::check_blocks() {
  for (const Use& use : uses_) {
    if (engine_ == nullptr || use.layout == 0) continue;
    const std::string wrong = use.blocks.check();
    if (!wrong.empty()) violation(wrong);
  }
}

// Revoked or abandoned: from here on the block is the engine's, and it writes into it at once.
void Actor::release_item(Pending& pending, Item& item) {
  Use& use = uses_[pending.use];
  item.released = true;
  if (pending.type == RecordType::kPut) {
    const std::string wrong =
        shared_.model.end_write(item.stamp, false, pending.generation, shared_.trace.now());
    if (!wrong.empty()) violation(wrong);
  } else if (stamped(use.blocks.bytes(item.block)) != item.stamp) {
    violation("a get wrote into a block before it claimed it");
  }
  use.blocks.write(item.block, shared_.model.new_stamp());
  use.blocks.give(item.block);
}

void Actor::meddle() {
  if (engine_ == nullptr) return;
  for (Pending& pending : pending_)
    for (uint32_t i = 0; i < pending.items.size(); ++i) {
      Item& item = pending.items[i];
      if (item.released || !random_.one_in(8)) continue;
      const Claim claim = engine_->claim(pending.request, i);
      const bool put = pending.type == RecordType::kPut;
      const bool abandoned = put && claim.move(ClaimState::kCopying, ClaimState::kAbandoned);
      if (!abandoned && !claim.move(ClaimState::kQueued, ClaimState::kRevoked)) continue;
      shared_.trace.event(name() + (abandoned ? " abandons " : " revokes ") +
                          std::to_string(pending.request) + "/" + std::to_string(i) + " in a copy");
      release_item(pending, item);
    }
}

void Actor::finish() {
  if (engine_ == nullptr || foul_) return;
  deaf_moves_ = 0;
  signal_some(true);
  if (!open_lookup_.empty()) send_lookup_record(open_lookup_head_.request);
}

void Actor::die(const char* why) {
  if (engine_ == nullptr) return;
  read();
  shared_.trace.event(name() + " dies: " + why);
  for (Pending& pending : pending_) {
    for (Item& item : pending.items) {
      if (pending.type != RecordType::kPut || item.released) continue;
      // A copy that runs may still end well: its bytes may come out for ever.
      const Use& use = uses_[pending.use];
      const uint64_t last = use.clears > 0 ? UINT64_MAX : use.generation;
      (void)shared_.model.end_write(item.stamp, true, last, shared_.trace.now());
      shared_.model.page_perhaps_fresh(page(use, item.key), use.generation);
    }
    if (pending.type == RecordType::kDelete)
      for (const uint64_t key : pending.keys)
        shared_.model.delete_answered(page(uses_[pending.use], key), {}, false, 0,
                                      shared_.trace.now());
  }
  engine_->die(why);
  down();
}

void Actor::daemon_killed(bool reads) {
  if (engine_ == nullptr) return;
  if (reads) read();
  for (Pending& pending : pending_)
    for (uint32_t i = 0; i < pending.items.size(); ++i) {
      Item& item = pending.items[i];
      if (item.released) continue;
      Use& use = uses_[pending.use];
      const ClaimState state = engine_->claim(pending.request, i).state();
      if (pending.type == RecordType::kPut) {
        const uint64_t last = use.clears > 0 ? UINT64_MAX : use.generation;
        const std::string wrong = shared_.model.end_write(item.stamp, state == ClaimState::kDone,
                                                          last, shared_.trace.now());
        if (!wrong.empty()) violation(wrong);
        shared_.model.page_perhaps_fresh(page(use, item.key), use.generation);
      } else if (state != ClaimState::kCopying && state != ClaimState::kDone &&
                 state != ClaimState::kFailed &&
                 stamped(use.blocks.bytes(item.block)) != item.stamp) {
        violation("a get wrote into a block that it never claimed");
      }
    }
  check_blocks();
  down();
}

void Actor::down() {
  engine_.reset();
  pending_.clear();
  leases_.clear();
  open_lookup_.clear();
  foul_ = unregistering_ = false;
  deaf_moves_ = 0;
  stage_ = 0;
  if (plan_.grouped) shared_.tickets.clear();
}

}  // namespace kvsidecar::sim
