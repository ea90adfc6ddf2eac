// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/transfers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {

constexpr uint64_t kProbeOffset = 1ull << 40, kProbeBytes = 4096;

}  // namespace

UsrbioTransfers::UsrbioTransfers(const Options& options, Clock& clock, UsrbioCounters& counters,
                                 Rings rings, std::span<std::byte> staging)
    : options_(options),
      clock_(clock),
      counters_(counters),
      staging_(staging, options.staging_bytes) {
  for (size_t i = 0; i < kTransferClasses; ++i) {
    KV_CHECK(rings[i] != nullptr);
    lanes_[i].current->ring = std::move(rings[i]);
  }
}

UsrbioTransfers::~UsrbioTransfers() { KV_CHECK(active_.empty()); }

void UsrbioTransfers::add_memory(std::unique_ptr<usrbio::Memory> memory) {
  memories_.add(std::move(memory));
}

void UsrbioTransfers::add_file(std::unique_ptr<usrbio::File> file) {
  const int fd = file->fd();
  files_[fd] = std::move(file);
}

std::unique_ptr<usrbio::File> UsrbioTransfers::remove_file(int fd) {
  const auto at = files_.find(fd);
  if (at == files_.end()) return nullptr;
  auto file = std::move(at->second);
  files_.erase(at);
  return file;
}

TransferPath::Taken UsrbioTransfers::start(const Transfer& transfer, uint64_t user) {
  const auto file = files_.find(transfer.fd);
  if (file == files_.end()) return Taken::kNotMine;
  auto moving = std::make_unique<MovingTransfer>();
  moving->user = user;
  moving->kind = transfer.kind;
  moving->file = file->second.get();
  moving->requests =
      cut_transfer(transfer, memories_, options_.chunk_bytes, staging_.buffer_bytes());
  const auto staged = [](const TransferRequest& r) { return r.memory == nullptr; };
  if (staging_.buffers() == 0 &&
      std::any_of(moving->requests.begin(), moving->requests.end(), staged))
    return Taken::kNotMine;
  return take(std::move(moving));
}

bool UsrbioTransfers::probe(const usrbio::Memory& memory, int fd,
                            std::function<void(int64_t result)> done) {
  const auto file = files_.find(fd);
  if (file == files_.end()) return false;
  auto moving = std::make_unique<MovingTransfer>();
  moving->file = file->second.get();
  moving->done = std::move(done);
  moving->requests.push_back({.memory = &memory,
                              .data = memory.bytes().data(),
                              .bytes = std::min<uint64_t>(kProbeBytes, memory.bytes().size()),
                              .offset = kProbeOffset});
  return take(std::move(moving)) == Taken::kYes;
}

TransferPath::Taken UsrbioTransfers::take(std::unique_ptr<MovingTransfer> moving) {
  MovingTransfer& m = *moving;
  RingLane& to = lane(m.kind);
  if (lost_since_ns_ == 0) {
    if (!to.waiting.empty() || to.current->ring == nullptr) return Taken::kFull;
    if (to.refused && to.current->outstanding > 0) return Taken::kFull;
  }
  m.begun_ns = std::max<uint64_t>(clock_.now_ns(), 1);
  if (lost_since_ns_ != 0) {
    active_.push_back(std::move(moving));
    finish(m, -ENOTCONN);
    return Taken::kYes;
  }
  const bool all = start_requests(to, m);
  if (!all && m.outstanding == 0) return Taken::kFull;
  active_.push_back(std::move(moving));
  if (!all)
    to.waiting.push_back(&m);
  else if (m.outstanding == 0)
    finish(m, joined_result(m.requests));
  return Taken::kYes;
}

bool UsrbioTransfers::start_requests(RingLane& to, MovingTransfer& m) {
  while (!m.all_started()) {
    const int error = start_request(to, m);
    if (error == EAGAIN) return false;
    if (error != 0) {
      TransferRequest& r = m.requests[m.next];
      r.ended = m.stopped = true;
      r.result = -error;
    }
    ++m.next;
  }
  return true;
}

// 0, EAGAIN: not now, or another errno: refused for good.
int UsrbioTransfers::start_request(RingLane& to, MovingTransfer& m) {
  const TransferRequest& r = m.requests[m.next];
  const usrbio::Memory* memory = r.memory;
  std::byte* data = r.data;
  std::byte* staged = nullptr;
  UsrbioClassCounters& count = counters_.of(m.kind);
  if (memory == nullptr) {
    staged = data = staging_.take();
    if (staged == nullptr) return EAGAIN;
    memory = memories_.find(staged, r.bytes);
    KV_CHECK(memory != nullptr);
    // The server may begin as soon as it is prepared.
    if (m.kind == TransferClass::kWrite) std::memcpy(staged, r.data, r.bytes);
  }
  const uint64_t number =
      requests_.add({&m, static_cast<uint32_t>(m.next), staged, to.current.get()});
  const int prepared = to.current->ring->prepare(*memory, data, r.bytes, *m.file, r.offset, number);
  if (prepared == 0) {
    ++m.outstanding;
    ++to.current->outstanding;
    m.use = to.current.get();
    to.unsubmitted = true;
    if (staged != nullptr) count.staged_bytes.fetch_add(r.bytes, std::memory_order_relaxed);
    return 0;
  }
  requests_.remove(number);
  if (staged != nullptr) staging_.give(staged);
  if (prepared != -EAGAIN && prepared != -EPROTO) return -prepared;
  to.refused = true;
  count.full.fetch_add(1, std::memory_order_relaxed);
  return EAGAIN;
}

void UsrbioTransfers::pump(RingLane& from) {
  if (lost_since_ns_ != 0 || from.current->ring == nullptr) return;
  if (from.refused && from.current->outstanding > 0) return;
  while (!from.waiting.empty()) {
    MovingTransfer& m = *from.waiting.front();
    if (!start_requests(from, m)) return;
    from.waiting.pop_front();
    if (m.outstanding == 0) finish(m, joined_result(m.requests));
  }
}

void UsrbioTransfers::submit() {
  if (lost_since_ns_ == 0) watch(clock_.now_ns());
  for (size_t i = 0; i < kTransferClasses; ++i) {
    RingLane& l = lanes_[i];
    pump(l);
    if (std::exchange(l.unsubmitted, false) && l.current->ring != nullptr)
      l.current->ring->submit();
    counters_.classes[i].depth.store(l.current->outstanding, std::memory_order_relaxed);
  }
}

bool UsrbioTransfers::next_completion(Completion& completion) {
  if (ready_.empty()) poll_rings();
  if (ready_.empty()) return false;
  completion = ready_.front();
  ready_.pop_front();
  return true;
}

bool UsrbioTransfers::has_completion() const {
  if (!ready_.empty()) return true;
  if (active_.empty()) return false;
  if (lost_since_ns_ != 0) return clock_.now_ns() >= lost_since_ns_ + options_.grace_ns;
  const auto has = [](const std::unique_ptr<RingUse>& use) {
    return use->outstanding > 0 && use->ring != nullptr && use->ring->has_completion();
  };
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const RingLane& l) {
    return has(l.current) || std::any_of(l.retired.begin(), l.retired.end(), has);
  });
}

void UsrbioTransfers::poll_rings() {
  if (active_.empty()) return;
  for (size_t i = 0; i < kTransferClasses; ++i) {
    RingLane& l = lanes_[i];
    for (auto& use : l.retired) poll_ring(*use);
    if (poll_ring(*l.current)) l.refused = false;
    pump(l);
  }
  if (lost_since_ns_ != 0 && clock_.now_ns() >= lost_since_ns_ + options_.grace_ns) end_all();
}

bool UsrbioTransfers::poll_ring(RingUse& use) {
  usrbio::Completion batch[32];
  bool any = false;
  while (use.ring != nullptr && use.outstanding > 0) {
    const size_t got = use.ring->poll(batch);
    for (size_t i = 0; i < got; ++i) request_ended(batch[i].user, batch[i].result);
    any = any || got > 0;
    if (got < std::size(batch)) break;
  }
  return any;
}

void UsrbioTransfers::request_ended(uint64_t number, int64_t result) {
  const Request* known = requests_.find(number);
  if (known == nullptr) {
    counters_.unknown_completions.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const Request request = *known;
  requests_.remove(number);
  MovingTransfer& m = *request.moving;
  TransferRequest& r = m.requests[request.number];
  // A server that counts holes wrongly: nobody knows what was read.
  if (result > static_cast<int64_t>(r.bytes)) result = -EIO;
  if (request.staged != nullptr) {
    if (m.kind != TransferClass::kWrite && result > 0)
      std::memcpy(r.data, request.staged, static_cast<size_t>(result));
    staging_.give(request.staged);
  }
  r.result = result;
  r.ended = true;
  const bool all = result == static_cast<int64_t>(r.bytes);
  m.stopped = m.stopped || !all;
  if (result >= 0 && !all && !m.done)
    counters_.of(m.kind).short_moves.fetch_add(1, std::memory_order_relaxed);
  --request.use->outstanding;
  if (--m.outstanding > 0 || !m.all_started()) return;
  std::erase(lane(m.kind).waiting, &m);
  finish(m, joined_result(m.requests));
}

}  // namespace kvsidecar
