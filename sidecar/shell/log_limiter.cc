// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/log_limiter.h"

namespace kvsidecar {

bool LogLimiter::admit(std::string_view cause, uint64_t now_ns) {
  auto found = windows_.find(cause);
  if (found == windows_.end()) {
    const std::string_view name = windows_.size() < kCausesMax ? cause : "other";
    found = windows_.try_emplace(std::string(name), Window{now_ns, 0, 0}).first;
  }
  Window& window = found->second;
  if (window.lines < kLinesPerWindow) {
    ++window.lines;
    return true;
  }
  ++window.suppressed;
  return false;
}

void LogLimiter::expire(
    uint64_t now_ns,
    const std::function<void(const std::string& cause, uint64_t suppressed)>& tell) {
  for (auto it = windows_.begin(); it != windows_.end();) {
    if (now_ns - it->second.started_ns < kLogWindowNs) {
      ++it;
      continue;
    }
    if (it->second.suppressed > 0) tell(it->first, it->second.suppressed);
    it = windows_.erase(it);
  }
}

}  // namespace kvsidecar
