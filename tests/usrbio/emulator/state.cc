// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/state.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace kvsidecar::emulator {

namespace {

constexpr uint64_t kChunkBytes = 1 << 20;

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t chunk_bytes() {
  const std::string value = from_environment("KVSIDECAR_EMULATOR_CHUNK");
  return value.empty() ? kChunkBytes : std::strtoull(value.c_str(), nullptr, 10);
}

uint64_t descriptors_max() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max;
}

// Splits off what comes before the first of these characters.
std::string next_part(std::string& rest, const char* ends) {
  const size_t at = rest.find_first_of(ends);
  const std::string part = rest.substr(0, at);
  rest = at == std::string::npos ? "" : rest.substr(at + 1);
  return part;
}

}  // namespace

State::State()
    : mounts(from_environment("KVSIDECAR_EMULATOR_MOUNT")),
      files(chunk_bytes(), faults),
      descriptors(descriptors_max(), files),
      daemon(mounts, files, faults) {}

std::string State::mount_of(int fd) const {
  if (!daemon.alive() || descriptors.is_orphan(fd)) return {};
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t bytes = ::readlink(link.c_str(), path, sizeof path);
  struct stat about {};
  if (bytes <= 0 || ::fstat(fd, &about) != 0) return {};
  // The links' folder of a daemon that died: whoever keeps it open looks whether that one lives.
  if (S_ISDIR(about.st_mode) && about.st_nlink == 0) return {};
  return mounts.holding(std::string(path, static_cast<size_t>(bytes)));
}

int State::set_faults(const std::string& text) {
  fake3fs::Faults checked;
  for (fake3fs::Faults* target : {&checked, &faults}) {
    target->clear();
    std::string rest = text;
    while (!rest.empty()) {
      std::string rule = next_part(rest, ";\n");
      rule.erase(0, rule.find_first_not_of(' '));
      const std::string name = next_part(rule, " ");
      if (!name.empty() && !target->set(name, rule).ok()) return -EINVAL;
    }
  }
  daemon.scan_at_idle(text.find("early.") != std::string::npos);
  return 0;
}

void State::kill_daemon() {
  descriptors.orphan_all();
  daemon.kill();
}

State& state() {
  static State* const all = new State;
  return *all;
}

}  // namespace kvsidecar::emulator
