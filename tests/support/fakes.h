// SPDX-License-Identifier: Apache-2.0
// Time, random numbers and faults in a test's hand.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "sidecar/conductor/conductor.h"
#include "sidecar/env.h"

namespace kvsidecar::testing {

class FakeClock final : public Clock {
 public:
  uint64_t now_ns() override { return now_; }
  uint64_t wall_ms() override { return now_ / 1'000'000; }
  void advance_ns(uint64_t ns) { now_ += ns; }

 private:
  uint64_t now_ = 1'000'000'000;
};

// splitmix64: the same numbers from the same seed on every machine.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() override {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return n == 0 ? 0 : next() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// Fails the places that a test names, as often as it says.
class PlannedFaults final : public FaultPoints {
 public:
  void fail_next(const std::string& point, int error, int times = 1) {
    plan_[point] = {error, times};
  }
  int fail(std::string_view point) override {
    const auto found = plan_.find(std::string(point));
    if (found == plan_.end() || found->second.times == 0) return 0;
    --found->second.times;
    return found->second.error;
  }

 private:
  struct Plan {
    int error = 0, times = 0;
  };
  std::map<std::string, Plan> plan_;
};

class KeptLog final : public EventLog {
 public:
  void event(const char* name, const std::string& fields) override {
    lines.push_back(std::string(name) + " " + fields);
  }
  std::vector<std::string> lines;
};

// What a state directory would keep.
class KeptNamespaces final : public NamespaceRecords {
 public:
  struct Record {
    std::vector<std::byte> encoded;
    uint64_t generation;
  };
  Result<uint64_t> save(const Hash128& id, Bytes encoded, uint64_t generation) override {
    if (!broken.ok()) return broken;
    Record& record = records[id];
    record.encoded.assign(encoded.begin(), encoded.end());
    if (generation > record.generation) record.generation = generation;
    return record.generation;
  }
  void forget(const Hash128& id) override {
    const auto found = records.find(id);
    if (found != records.end() && found->second.generation <= 1) records.erase(found);
  }
  std::map<Hash128, Record> records;
  Status broken;  // what save() ends with
};

}  // namespace kvsidecar::testing
