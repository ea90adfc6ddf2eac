// SPDX-License-Identifier: Apache-2.0
// What a server has done and has, by name, for tests that look or wait. Any thread.
// iovs, rings, open_files: now. submits, jobs, reads, writes, read_bytes, written_bytes, lost,
// refused (rings that broke the rules), taken (I/O out of rings), finished (jobs whose completions
// were posted), reclaimed and iovs_closed (mini3fs): since the start. stalled: I/O that waits to be
// released, now.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace kvsidecar::fake3fs {

class Counts {
 public:
  void add(const std::string& name, int64_t by = 1);
  int64_t get(const std::string& name) const;
  std::map<std::string, int64_t> all() const;
  // Returns when the count is at least that much, or after the time: whether it is.
  bool wait_for(const std::string& name, int64_t at_least, std::chrono::milliseconds most);
  void end_waits();  // all of them, now and from now on

 private:
  mutable std::mutex lock_;
  std::condition_variable changed_;
  size_t waiters_ = 0;
  bool ended_ = false;
  std::map<std::string, int64_t, std::less<>> values_;
};

}  // namespace kvsidecar::fake3fs
