// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/hostile_daemon.h"

#include <unistd.h>

#include <algorithm>

namespace kvsidecar::fuzz {
namespace {

constexpr Geometry kRoomy{32, 2, 16, 8, 128, 4}, kCrowded{8, 1, 8, 8, 64, 1};
constexpr size_t kTakenMax = 4096;

SessionShare make_share(bool crowded) {
  auto made = make_session_share(crowded ? kCrowded : kRoomy, 1, 1);
  require(made.ok(), "a session can be made:", made.status().text());
  return made.take();
}

UniqueFd twin(const UniqueFd& fd) { return UniqueFd(::dup(fd.get())); }

Connection client_end(const SessionShare& share) {
  Connection end;
  end.share.geometry = share.geometry;
  const Geometry& g = share.geometry;
  const auto map = [](const UniqueFd& fd, size_t bytes, Access access) {
    auto mapped = MappedMemory::map(fd.get(), 0, bytes, access);
    require(mapped.ok(), "a session can be mapped:", mapped.status().text());
    return mapped.take();
  };
  end.share.submission = map(share.submission_fd, submission_bytes(g), Access::kReadWrite);
  end.share.completion = map(share.completion_fd, completion_bytes(g), Access::kReadOnly);
  end.share.cells = map(share.cells_fd, cells_bytes(g), Access::kReadWrite);
  end.share.kick = twin(share.kick);
  return end;
}

}  // namespace

HostileDaemon::HostileDaemon(bool crowded)
    : share_(make_share(crowded)),
      memory_(share_.memory()),
      submissions_(memory_),
      buffer_(kRequestBytesMax) {
  link = std::make_shared<clientlib::Link>(client_end(share_));
}

bool HostileDaemon::is_copying(uint64_t request, uint32_t item) const {
  return !dead_ && claim(request, item).state() == ClaimState::kCopying;
}

const std::vector<std::pair<uint64_t, uint32_t>>& HostileDaemon::copying() {
  std::erase_if(copying_, [this](const auto& at) { return !is_copying(at.first, at.second); });
  return copying_;
}

bool HostileDaemon::still_writes(bool same_session, const Item& item, bool staged) {
  return std::any_of(copying().begin(), copying().end(), [&](const auto& at) {
    const Lent& other = lent.at(at.first);
    const Item& old = other.items[at.second];
    const bool staged_too = staged && other.staged && other.type == RecordType::kGet;
    return (same_session && old.word == item.word) || (staged_too && old.staging == item.staging);
  });
}

void HostileDaemon::step(Step step, FuzzInput& in) {
  uint64_t request = 0;
  uint32_t item = 0;
  switch (step) {
    case Step::kTake:
      return take_all();
    case Step::kCopy:
      if (pick_item(in, request, item)) copy(request, item);
      return;
    case Step::kEnd: {
      const bool picked = pick_item(in, request, item);
      const uint8_t how = in.take<uint8_t>();
      if (picked) end(request, item, how);
      return;
    }
    case Step::kServe:
      return serve(pick_request(in));
    case Step::kAnswer:
      return answer(in);
    case Step::kRaw: {
      const auto head = in.take<CompletionHead>();
      const uint8_t bytes = in.take<uint8_t>();
      return write(head, in.take_bytes(bytes));
    }
    case Step::kWord:
      return word(in);
    default:
      return;
  }
}

Claim HostileDaemon::claim(uint64_t request, uint32_t item) const {
  return {memory_.claim(lent.at(request).items[item].word), request, static_cast<uint16_t>(item)};
}

uint64_t HostileDaemon::pick_request(FuzzInput& in) const {
  const uint8_t number = in.take<uint8_t>();
  return taken_.empty() ? 0 : taken_[taken_.size() - 1 - number % taken_.size()].request;
}

// Not only what it has taken: claim words lie open to it from the start.
bool HostileDaemon::pick_item(FuzzInput& in, uint64_t& request, uint32_t& item) {
  const uint8_t number = in.take<uint8_t>(), pick = in.take<uint8_t>();
  if (lent.empty()) return false;
  const auto at = std::next(lent.begin(), number % lent.size());
  request = at->first;
  item = static_cast<uint32_t>(pick % at->second.items.size());
  return true;
}

void HostileDaemon::take_all() {
  RecordHead head;
  uint32_t length = 0;
  while (taken_.size() < kTakenMax) {
    // The positions that word() wrote may have let the client overrun its ring.
    const Result<int> popped = submissions_.pop(head, buffer_.data(), length);
    if (!popped.ok() || *popped == 0) break;
    taken_.push_back(head);
  }
  submissions_.publish_consumed();
}

void HostileDaemon::copy(uint64_t request, uint32_t item) {
  if (dead_ || !claim(request, item).move(ClaimState::kQueued, ClaimState::kCopying)) return;
  copying_.emplace_back(request, item);
}

void HostileDaemon::end(uint64_t request, uint32_t item, uint8_t how) {
  if (dead_) return;
  const Claim word = claim(request, item);
  if (how % 3 == 0 && word.move(ClaimState::kCopying, ClaimState::kDone))
    lent.at(request).items[item].done = true;
  if (how % 3 == 1) (void)word.move(ClaimState::kCopying, ClaimState::kFailed);
  if (how % 3 == 2) (void)word.move(ClaimState::kQueued, ClaimState::kSkipped);
}

void HostileDaemon::serve(uint64_t request) {
  CompletionHead head{};
  head.request = request;
  head.cells = 1;
  std::vector<std::byte> statuses(64);
  if (const auto found = lent.find(request); found != lent.end()) {
    statuses.assign(found->second.items.size(), std::byte{0});
    for (uint32_t i = 0; i < statuses.size(); ++i) {
      copy(request, i);
      end(request, i, 0);
    }
  }
  write(head, statuses);
}

void HostileDaemon::answer(FuzzInput& in) {
  CompletionHead head{};
  head.request = pick_request(in);
  head.status = in.take<uint8_t>() % 32u;
  const auto status = in.take<std::byte>();
  const uint8_t cells = in.take<uint8_t>(), edits = in.take<uint8_t>();
  head.cell = cells % 4u;
  head.cells = static_cast<uint16_t>(cells / 4 % 8);
  head.items = 96;
  head.handle = cells / 32u;
  head.value = edits * uint64_t{600};
  head.length = 108;
  std::byte cell[sizeof head + 108];
  std::fill(std::begin(cell), std::end(cell), status);
  std::memcpy(cell, &head, sizeof head);
  for (uint8_t i = 0; i < edits % 8; ++i) {
    const uint16_t offset = in.take<uint16_t>();
    cell[offset % sizeof cell] = in.take<std::byte>();
  }
  std::memcpy(&head, cell, sizeof head);
  write(head, Bytes(cell).subspan(sizeof head));
}

void HostileDaemon::word(FuzzInput& in) {
  const uint8_t which = in.take<uint8_t>(), pick = in.take<uint8_t>();
  const uint64_t value = in.take<uint64_t>();
  InfoPage& info = memory_.info();
  switch (which % 5) {
    case 0:
      return info.consumed.store(value);
    case 1:
      return info.published.store(value);
    case 2:
      return info.doorbell.store(static_cast<uint32_t>(value));
    case 3:
      return info.daemon_sleeps.store(value & 1);
    default:
      return info.progress[pick].store(value);
  }
}

void HostileDaemon::write(const CompletionHead& head, Bytes payload) {
  if (written_ - memory_.cell_page().consumed.load() >= memory_.geometry.completion_cells) return;
  std::byte* cell = memory_.completion + sizeof(InfoPage) +
                    (written_++ & (memory_.geometry.completion_cells - 1)) * kCompletionCellBytes;
  CompletionHead out = head;
  if (out.length == 0) out.length = static_cast<uint32_t>(payload.size());
  std::memcpy(cell, &out, sizeof out);
  if (!payload.empty()) std::memcpy(cell + sizeof out, payload.data(), payload.size());
  memory_.info().published.store(written_);
}

}  // namespace kvsidecar::fuzz
