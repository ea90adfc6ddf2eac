// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/counts.h"

namespace kvsidecar::fake3fs {

void Counts::add(const std::string& name, int64_t by) {
  std::lock_guard guard(lock_);
  values_[name] += by;
  if (waiters_ > 0) changed_.notify_all();
}

int64_t Counts::get(const std::string& name) const {
  std::lock_guard guard(lock_);
  const auto found = values_.find(name);
  return found == values_.end() ? 0 : found->second;
}

std::map<std::string, int64_t> Counts::all() const {
  std::lock_guard guard(lock_);
  return {values_.begin(), values_.end()};
}

bool Counts::wait_for(const std::string& name, int64_t at_least, std::chrono::milliseconds most) {
  std::unique_lock guard(lock_);
  ++waiters_;
  changed_.wait_for(guard, most, [&] { return ended_ || values_[name] >= at_least; });
  --waiters_;
  return values_[name] >= at_least;
}

void Counts::end_waits() {
  std::lock_guard guard(lock_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace kvsidecar::fake3fs
