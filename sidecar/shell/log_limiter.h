// SPDX-License-Identifier: Apache-2.0
// How often a cause may log. Pure; the caller locks and tells the time.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace kvsidecar {

inline constexpr uint32_t kLinesPerWindow = 20;
inline constexpr uint64_t kLogWindowNs = 10'000'000'000;
inline constexpr size_t kCausesMax = 256;  // beyond it, new causes share one budget

class LogLimiter {
 public:
  // True when this line may go out. A window begins with a cause's first line.
  bool admit(std::string_view cause, uint64_t now_ns);
  // Ends windows that have passed; tells each cause that suppressed something.
  void expire(uint64_t now_ns,
              const std::function<void(const std::string& cause, uint64_t suppressed)>& tell);

 private:
  struct Window {
    uint64_t started_ns = 0, suppressed = 0;
    uint32_t lines = 0;
  };
  std::map<std::string, Window, std::less<>> windows_;
};

}  // namespace kvsidecar
