// SPDX-License-Identifier: Apache-2.0
// Which socket a daemon will listen on: its own answer, with defaults and derived values in it.
// Blocks until the daemon's program has printed its configuration.
#pragma once
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

// daemon.socket of `program --config FILE --print-config`. An error names file and reason.
Result<std::string> socket_of_config(const std::string& program, const std::string& config);

}  // namespace kvsidecar
