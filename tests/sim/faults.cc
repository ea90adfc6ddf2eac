// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/faults.h"

#include <cerrno>

namespace kvsidecar::sim {

int SimFaults::fail(std::string_view point) {
  uint32_t chance = 0;
  if (point == "device.copy") {
    chance = chances.copy;
    if (in_copy) in_copy();
  } else if (point == "device.import") {
    chance = chances.import;
  } else if (point == "device.echo") {
    chance = chances.echo;
  }
  return random_.below(1000) < chance ? EIO : 0;
}

bool WatchedStore::submit(StoreCommand&& command) {
  const uint64_t token = command.token;
  const bool read = command.op == StoreOp::kRead;
  const LateWrite write{command.page, command.page_bytes};
  if (!store_.submit(std::move(command))) return false;
  if (read) reads_[token] = write;
  return true;
}

bool WatchedStore::poll(StoreDone& done) {
  if (!store_.poll(done)) return false;
  reads_.erase(done.token);
  return true;
}

std::vector<LateWrite> WatchedStore::reads_in_flight() const {
  std::vector<LateWrite> writes;
  for (const auto& [token, write] : reads_) writes.push_back(write);
  return writes;
}

}  // namespace kvsidecar::sim
