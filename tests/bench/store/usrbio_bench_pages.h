// SPDX-License-Identifier: Apache-2.0
// Reads of 1 MiB pages, hashed and copied as an engine would get them; by whatever brings the
// bytes. What is done beside the reading is the same for all.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar {

inline constexpr uint64_t kBenchPage = 1 << 20;
inline constexpr size_t kBenchDepth = 32;
// As many again are being hashed and copied meanwhile.
inline constexpr size_t kBenchSlots = 2 * kBenchDepth;

// One thread.
class PageReads {
 public:
  virtual ~PageReads() = default;
  // Page number `page` into slot `slot`; it may begin at once.
  virtual Status start(size_t slot, size_t page) = 0;
  virtual void submit() = 0;
  // The slots of reads that have ended, at least one; sleeps until then. An error: one failed.
  virtual Result<std::span<const size_t>> wait() = 0;
  virtual const std::byte* slot(size_t number) const = 0;
};

// Where the pages go in the end: kBenchSlots blocks, and `threads` that fill them.
class Finishers {
 public:
  explicit Finishers(unsigned threads);
  ~Finishers();
  void finish_here(size_t slot, const std::byte* page);  // hash and copy
  void finish(size_t slot, const std::byte* page);       // on a thread
  // Slots that are finished; `wait`: at least one.
  std::vector<size_t> finished(bool wait);

 private:
  struct Work {
    size_t slot;
    const std::byte* page;
  };
  void run();

  std::vector<std::byte> blocks_;
  std::mutex lock_;
  std::condition_variable work_due_, work_done_;
  std::deque<Work> due_;
  std::vector<size_t> done_;
  std::vector<std::thread> threads_;
  bool ending_ = false;
};

// Nanoseconds of one page, after another.
Result<double> read_one(PageReads& reads, Finishers& finishers, size_t page);

struct Stretch {
  double seconds = 0;
  double cpu_seconds = 0;  // of this process
};
// Pages 0 .. pages - 1, with kBenchDepth of them in flight.
Result<Stretch> read_many(PageReads& reads, Finishers& finishers, size_t pages);

}  // namespace kvsidecar
