// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/faults.h"

namespace kvsidecar::fake3fs {
namespace {

struct Known {
  const char* name;
  FaultKind kind;
};

constexpr Known kKnown[] = {
    {"read.error", FaultKind::kErrno},
    {"write.error", FaultKind::kErrno},
    {"read.short", FaultKind::kBytes},
    {"write.short", FaultKind::kBytes},
    {"read.delay_us", FaultKind::kMicroseconds},
    {"write.delay_us", FaultKind::kMicroseconds},
    {"read.late_us", FaultKind::kMicroseconds},
    {"write.late_us", FaultKind::kMicroseconds},
    {"read.stall", FaultKind::kStall},
    {"write.stall", FaultKind::kStall},
    {"read.lost", FaultKind::kSwitch},
    {"write.lost", FaultKind::kSwitch},
    {"jobs.newest_first", FaultKind::kSwitch},
    {"iov.unpinned", FaultKind::kSwitch},
    {"iovs.max", FaultKind::kNumber},
    {"rings.max", FaultKind::kNumber},
    {"space.bytes", FaultKind::kBytes},
    {"quota.bytes", FaultKind::kBytes},
    {"early.idle", FaultKind::kSwitch},
    {"early.again", FaultKind::kSwitch},
    {"early.random", FaultKind::kNumber},
    {"holes.folded", FaultKind::kSwitch},
    {"gc.at_unlink", FaultKind::kSwitch},
    {"stat.delayed", FaultKind::kSwitch},
    {"ioctl.version", FaultKind::kNumber},
};

// How upstream behaves without anybody's doing.
bool on_by_default(std::string_view name) {
  return name == "early.again" || name == "holes.folded";
}

}  // namespace

Faults::Faults(const std::vector<std::string>& error_names) {
  for (const Known& known : kKnown) kinds_.emplace(known.name, known.kind);
  for (const std::string& name : error_names) kinds_.emplace(name, FaultKind::kErrno);
}

Status Faults::set(std::string_view name, std::string_view value) {
  std::lock_guard guard(lock_);
  const auto kind = kinds_.find(name);
  if (kind == kinds_.end()) {
    std::string names;
    for (const auto& [known, unused] : kinds_) names += " " + known;
    return invalid("there is no fault '" + std::string(name) + "'; there are:" + names);
  }
  const bool off = value == "off" && kind->second != FaultKind::kSwitch;
  FaultRule rule;
  if (!off) {
    auto parsed = parse_fault_rule(kind->second, value);
    if (!parsed.ok()) return parsed.status();
    rule = *parsed;
  }
  const std::string key(name);
  rules_.erase(key);
  texts_.erase(key);
  if (!off) {
    rules_[key] = rule;
    texts_[key] = value;
  }
  const uint64_t number = off ? UINT64_MAX : static_cast<uint64_t>(rule.value);
  if (name == "space.bytes") space_.set_bytes_max(number);
  if (name == "quota.bytes") space_.set_quota_bytes_max(number);
  if (name == "early.random") random_state_ = number;
  return {};
}

void Faults::clear() {
  std::lock_guard guard(lock_);
  rules_.clear();
  texts_.clear();
  space_.set_bytes_max(UINT64_MAX);
  space_.set_quota_bytes_max(UINT64_MAX);
}

std::map<std::string, std::string> Faults::current() const {
  std::lock_guard guard(lock_);
  return {texts_.begin(), texts_.end()};
}

bool Faults::hit(std::string_view name, int64_t& value) {
  const auto rule = rules_.find(name);
  if (rule == rules_.end() || !rule->second.strikes()) return false;
  value = rule->second.value;
  return true;
}

IoFault Faults::on_io(bool read) {
  std::lock_guard guard(lock_);
  IoFault fault;
  if (rules_.empty()) return fault;
  int64_t value = 0;
  const auto strikes = [&](const char* of_reads, const char* of_writes) {
    return hit(read ? of_reads : of_writes, value);
  };
  if (strikes("read.error", "write.error")) fault.error = static_cast<int>(value);
  if (strikes("read.short", "write.short")) fault.bytes_max = static_cast<uint64_t>(value);
  if (strikes("read.delay_us", "write.delay_us"))
    fault.delay_ns = static_cast<uint64_t>(value) * 1000;
  if (strikes("read.late_us", "write.late_us")) fault.late_ns = static_cast<uint64_t>(value) * 1000;
  if (strikes("read.stall", "write.stall")) {
    fault.stall = true;
    fault.stall_ns = static_cast<uint64_t>(value) * 1'000'000;
  }
  if (strikes("read.lost", "write.lost")) fault.lost = value != 0;
  return fault;
}

int Faults::error_at(std::string_view name) {
  std::lock_guard guard(lock_);
  int64_t value = 0;
  return hit(name, value) ? static_cast<int>(value) : 0;
}

bool Faults::strikes(std::string_view name) {
  std::lock_guard guard(lock_);
  int64_t value = 0;
  return hit(name, value) && value != 0;
}

bool Faults::is_on(std::string_view name) const {
  std::lock_guard guard(lock_);
  const auto rule = rules_.find(name);
  return rule == rules_.end() ? on_by_default(name) : rule->second.value != 0;
}

uint64_t Faults::number(std::string_view name, uint64_t otherwise) const {
  std::lock_guard guard(lock_);
  const auto rule = rules_.find(name);
  return rule == rules_.end() ? otherwise : static_cast<uint64_t>(rule->second.value);
}

std::optional<bool> Faults::by_chance() {
  std::lock_guard guard(lock_);
  if (!rules_.contains("early.random")) return std::nullopt;
  random_state_ = random_state_ * 6364136223846793005u + 1442695040888963407u;
  return (random_state_ >> 62) == 0;
}

bool Faults::looks_again() { return by_chance().value_or(is_on("early.again")); }

bool Faults::scans_when_idle() const {
  std::lock_guard guard(lock_);
  return rules_.contains("early.idle") || rules_.contains("early.random");
}

bool Faults::looks_at_idle() { return by_chance().value_or(is_on("early.idle")); }

}  // namespace kvsidecar::fake3fs
