// SPDX-License-Identifier: Apache-2.0
// What happened in one run, as a hash (the same seed must give the same one), the last lines, and
// the first violation. The number of events so far is the simulator's logical time.
#pragma once
#include <cstdint>
#include <deque>
#include <string>

namespace kvsidecar::sim {

class Trace {
 public:
  explicit Trace(uint64_t seed);
  void event(const std::string& text);
  void violation(const std::string& text);  // only the first is kept

  uint64_t now() const { return events_; }
  uint64_t hash() const { return hash_; }
  bool failed() const { return !violation_.empty(); }
  const std::string& first_violation() const { return violation_; }
  std::string story() const;  // the last events

 private:
  static constexpr size_t kLinesKept = 60;

  uint64_t events_ = 0, hash_;
  bool print_;
  std::deque<std::string> last_;
  std::string violation_;
};

}  // namespace kvsidecar::sim
