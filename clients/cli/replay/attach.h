// SPDX-License-Identifier: Apache-2.0
// The namespace of a replay. Blocks until the daemon has answered.
#pragma once
#include <string>

#include "clients/cpp/kvsidecar.hpp"

namespace kvsidecar {

struct EngineOptions;

// Contents follow from the seed alone; the run keeps what earlier replays have left in the daemon
// out of this one's hits. A daemon that is started again within the run finds it.
std::string replay_revision(uint64_t seed, uint64_t run);

client::Expected<kvs_namespace> attach_replay(client::Client& client, const EngineOptions& options);

}  // namespace kvsidecar
