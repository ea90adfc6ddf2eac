// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/server.h"

#include <algorithm>
#include <cerrno>

namespace kvsidecar::fake3fs {

Server::Server(Clock& clock, FileTable& files, Faults& faults, Counts& counts)
    : clock_(clock), faults_(faults), counts_(counts), runner_(buffers_, files, faults, counts) {}

Server::~Server() { stop(); }

int Server::add_buffer(const Id& id, std::span<std::byte> bytes, uint64_t block_bytes,
                       std::shared_ptr<const void> keep) {
  if (block_bytes > bytes.size()) return -EINVAL;
  Buffer buffer{.bytes = bytes, .block_bytes = block_bytes, .keep = std::move(keep)};
  buffer.unpinned = faults_.strikes("iov.unpinned");
  const int error = buffers_.add(id, std::move(buffer), faults_.number("iovs.max", UINT64_MAX));
  if (error == 0) counts_.add("iovs");
  return error;
}

int Server::remove_buffer(const Id& id) {
  const int error = buffers_.remove(id);
  if (error == 0) counts_.add("iovs", -1);
  return error;
}

int Server::add_ring(const Id& id, std::span<std::byte> memory, const RingOptions& options,
                     std::shared_ptr<const void> keep) {
  const auto view = RingMemory::over(memory);
  if (!view.ok() || options.io_depth > static_cast<int64_t>(view->entries())) return -EINVAL;
  std::lock_guard guard(lock_);
  if (rings_.contains(id)) return -EEXIST;
  if (rings_.size() >= faults_.number("rings.max", UINT64_MAX)) return -EMFILE;
  rings_.emplace(id, std::make_shared<Ring>(id, options, *view, counts_, std::move(keep)));
  counts_.add("rings");
  return 0;
}

int Server::remove_ring(const Id& id) {
  std::lock_guard guard(lock_);
  if (rings_.erase(id) == 0) return -ENOENT;
  counts_.add("rings", -1);
  return 0;
}

void Server::submitted(Priority priority) {
  counts_.add("submits");
  scan(priority);
}

void Server::idle(Priority priority) {
  if (faults_.looks_at_idle()) scan(priority);
}

void Server::scan(Priority priority) {
  std::lock_guard guard(lock_);
  for (bool any = true; any;) {
    any = false;
    for (const auto& [id, ring] : rings_) {
      if (ring->options().priority != priority) continue;
      for (Job& job : ring->pick(faults_)) {
        enqueue(std::move(job));
        any = true;
      }
    }
  }
}

void Server::enqueue(Job job) {
  IoFault worst;
  int64_t stalled = 0;
  for (const JobIo& io : job.ios) {
    worst.delay_ns = std::max(worst.delay_ns, io.fault.delay_ns);
    if (!io.fault.stall) continue;
    ++stalled;
    const uint64_t until = io.fault.stall_ns == 0 ? UINT64_MAX : io.fault.stall_ns;
    worst.stall_ns = std::max(worst.stall_ns, until);
  }
  Waiting waiting{.job = std::move(job), .stalled = stalled};
  if (stalled > 0) {
    counts_.add("stalled", stalled);
    const uint64_t due =
        worst.stall_ns == UINT64_MAX ? UINT64_MAX : clock_.now_ns() + worst.stall_ns;
    waiting_.emplace(due, std::move(waiting));
  } else if (worst.delay_ns > 0) {
    waiting_.emplace(clock_.now_ns() + worst.delay_ns, std::move(waiting));
  } else {
    queue(std::move(waiting));
  }
  changed_.notify_one();
}

void Server::queue(Waiting waiting) {
  auto& queue = queues_[static_cast<size_t>(waiting.job.ring->options().priority)];
  if (waiting.stalled > 0) counts_.add("stalled", -std::exchange(waiting.stalled, 0));
  if (faults_.is_on("jobs.newest_first"))
    queue.push_front(std::move(waiting));
  else
    queue.push_back(std::move(waiting));
}

void Server::release_stalled() {
  std::lock_guard guard(lock_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second.stalled == 0) {
      ++at;
      continue;
    }
    queue(std::move(at->second));
    at = waiting_.erase(at);
  }
  changed_.notify_all();
}

bool Server::take(Waiting& next) {
  const uint64_t now_ns = waiting_.empty() ? 0 : clock_.now_ns();
  while (!waiting_.empty() && waiting_.begin()->first <= now_ns) {
    queue(std::move(waiting_.begin()->second));
    waiting_.erase(waiting_.begin());
  }
  for (auto& queue : queues_) {
    if (queue.empty()) continue;
    next = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  return false;
}

void Server::run(Waiting next) {
  if (!next.ran) {
    runner_.run(next.job);
    counts_.add("jobs");
    uint64_t late_ns = 0;
    for (const JobIo& io : next.job.ios) late_ns = std::max(late_ns, io.fault.late_ns);
    if (late_ns > 0) {
      std::lock_guard guard(lock_);
      next.ran = true;
      waiting_.emplace(clock_.now_ns() + late_ns, std::move(next));
      changed_.notify_one();
      return;
    }
  }
  next.job.ring->finish(next.job);
  for (const JobIo& io : next.job.ios)
    if (io.fault.lost) counts_.add("lost");
  counts_.add("finished");
  if (!faults_.looks_again()) return;
  std::lock_guard guard(lock_);
  for (Job& job : next.job.ring->pick(faults_)) enqueue(std::move(job));
}

bool Server::step() {
  Waiting next;
  {
    std::lock_guard guard(lock_);
    if (!take(next)) return false;
  }
  run(std::move(next));
  return true;
}

uint64_t Server::next_due_ns() const {
  std::lock_guard guard(lock_);
  return waiting_.empty() ? UINT64_MAX : waiting_.begin()->first;
}

void Server::work() {
  std::unique_lock guard(lock_);
  while (!stopping_) {
    Waiting next;
    if (take(next)) {
      guard.unlock();
      run(std::move(next));
      guard.lock();
      continue;
    }
    const uint64_t due = waiting_.empty() ? UINT64_MAX : waiting_.begin()->first;
    if (due == UINT64_MAX) {
      changed_.wait(guard);
      continue;
    }
    const uint64_t now_ns = clock_.now_ns();
    if (due > now_ns) changed_.wait_for(guard, std::chrono::nanoseconds(due - now_ns));
  }
}

void Server::stop() {
  std::lock_guard guard(lock_);
  stopping_ = true;
  changed_.notify_all();
}

}  // namespace kvsidecar::fake3fs
