// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/store/usrbio_bench_pages.h"

#include <time.h>

#include <cstring>

#include "ipc/os.h"
#include "sidecar/digest.h"

namespace kvsidecar {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The hash must not be left out.
volatile uint64_t last_hash;

}  // namespace

Finishers::Finishers(unsigned threads) : blocks_(kBenchSlots * kBenchPage, std::byte{1}) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Finishers::~Finishers() {
  {
    const std::lock_guard guard(lock_);
    ending_ = true;
  }
  work_due_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Finishers::finish_here(size_t slot, const std::byte* page) {
  last_hash = part_digest(Bytes(page, kBenchPage), 0);
  std::memcpy(blocks_.data() + slot * kBenchPage, page, kBenchPage);
}

void Finishers::finish(size_t slot, const std::byte* page) {
  {
    const std::lock_guard guard(lock_);
    due_.push_back({slot, page});
  }
  work_due_.notify_one();
}

void Finishers::run() {
  std::unique_lock guard(lock_);
  for (;;) {
    work_due_.wait(guard, [this] { return ending_ || !due_.empty(); });
    if (due_.empty()) return;
    const Work work = due_.front();
    due_.pop_front();
    guard.unlock();
    finish_here(work.slot, work.page);
    guard.lock();
    done_.push_back(work.slot);
    work_done_.notify_one();
  }
}

std::vector<size_t> Finishers::finished(bool wait) {
  std::unique_lock guard(lock_);
  if (wait) work_done_.wait(guard, [this] { return !done_.empty(); });
  return std::exchange(done_, {});
}

Result<double> read_one(PageReads& reads, Finishers& finishers, size_t page) {
  const uint64_t begin = monotonic_ns();
  if (Status started = reads.start(0, page); !started.ok()) return started;
  reads.submit();
  auto ended = reads.wait();
  if (!ended) return ended.status();
  finishers.finish_here(0, reads.slot(0));
  return static_cast<double>(monotonic_ns() - begin);
}

Result<Stretch> read_many(PageReads& reads, Finishers& finishers, size_t pages) {
  const uint64_t begin = monotonic_ns();
  const double cpu = cpu_seconds();
  std::vector<size_t> free;
  for (size_t slot = 0; slot < kBenchSlots; ++slot) free.push_back(slot);
  size_t started = 0, in_flight = 0, finished = 0;
  const auto take_back = [&](bool wait) {
    const std::vector<size_t> slots = finishers.finished(wait);
    finished += slots.size();
    free.insert(free.end(), slots.begin(), slots.end());
  };
  while (finished < pages) {
    take_back(in_flight == 0 && (free.empty() || started == pages));
    bool any = false;
    for (; started < pages && in_flight < kBenchDepth && !free.empty(); ++started, ++in_flight) {
      if (Status status = reads.start(free.back(), started); !status.ok()) return status;
      free.pop_back();
      any = true;
    }
    if (any) reads.submit();
    if (in_flight == 0) continue;
    const auto ended = reads.wait();
    if (!ended) return ended.status();
    for (const size_t slot : *ended) finishers.finish(slot, reads.slot(slot));
    in_flight -= ended->size();
  }
  return Stretch{static_cast<double>(monotonic_ns() - begin) * 1e-9, cpu_seconds() - cpu};
}

}  // namespace kvsidecar
