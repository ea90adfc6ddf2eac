// SPDX-License-Identifier: Apache-2.0
#include "tests/support/node.h"

namespace kvsidecar::testing {
namespace {

constexpr int kSettleStepsMax = 1'000'000;

std::span<std::byte> aligned_chunk(NodeRemains& remains, uint64_t bytes) {
  constexpr uintptr_t kAlignment = 4096;
  remains.pool.resize(bytes + kAlignment);
  const auto start = reinterpret_cast<uintptr_t>(remains.pool.data());
  const uintptr_t aligned = (start + kAlignment - 1) / kAlignment * kAlignment;
  return {reinterpret_cast<std::byte*>(aligned), bytes};
}

}  // namespace

Node::Node(const NodeOptions& options, NodeRemains& remains, Clock& clock, SeededRandom& random,
           FaultPoints& faults)
    : options_(options),
      device_(random.next(), faults),
      pool_(options.epoch, options.span_bytes),
      hash_worker_(options.queue_entries, &waker_),
      reaper_(options.queue_entries, &waker_),
      device_reaper_(options.queue_entries, &waker_) {
  Parts parts;
  parts.clock = &clock;
  parts.random = &random;
  parts.device = &device_;
  for (size_t i = 0; i < options.copy_workers; ++i) {
    copy_workers_.push_back(
        std::make_unique<CopyWorker>(device_, clock, options.queue_entries, &waker_));
    parts.copy_workers.push_back(copy_workers_.back().get());
    workers_.push_back(copy_workers_.back().get());
  }
  if (options.inline_copies) {
    inline_copy_ = std::make_unique<CopyWorker>(device_, clock, options.queue_entries, nullptr);
    parts.inline_copy = inline_copy_.get();
  }
  parts.hash_workers.push_back(&hash_worker_);
  parts.reaper = &reaper_;
  parts.device_reaper = &device_reaper_;
  parts.store = options.store;
  parts.namespaces = &remains.namespaces;
  parts.pool = &pool_;
  for (Worker* worker : std::initializer_list<Worker*>{&hash_worker_, &reaper_, &device_reaper_})
    workers_.push_back(worker);
  if (options.store != nullptr) workers_.push_back(options.store);
  conductor_ = std::make_unique<Conductor>(parts, options.limits, options.epoch, log_);
  for (const auto& [id, record] : remains.namespaces.records)
    conductor_->restore_namespace(record.encoded, record.generation);
  const bool used = !remains.chunk.empty();
  if (!used) remains.chunk = aligned_chunk(remains, options.pool_bytes);
  conductor_->add_chunk(remains.chunk, used);
}

Node::~Node() {
  // Sessions go first; then whatever workers still hold of them comes back.
  for (int i = 0; i < kSettleStepsMax && !conductor_->quiet(); ++i) step();
  KV_CHECK(conductor_->quiet());
}

bool Node::step() {
  bool any = conductor_->step();
  for (Worker* worker : workers_) any |= worker->step();
  return any;
}

void Node::step_one(SeededRandom& random) {
  if (random.one_in(2))
    conductor_->step();
  else
    workers_[random.below(workers_.size())]->step();
}

bool Node::settle() {
  int idle = 0;
  for (int i = 0; i < kSettleStepsMax; ++i) {
    idle = step() ? 0 : idle + 1;
    if (idle == 3) return true;
  }
  return false;
}

}  // namespace kvsidecar::testing
