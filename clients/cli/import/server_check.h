// SPDX-License-Identifier: Apache-2.0
// Whether a metadata server still runs: one that does hands out pages anew while they are read.
// Blocks for two seconds at most, name lookup not counted. Any thread.
#pragma once
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

// url: [http://]HOST:PORT[/…]. OK when nobody takes a connection there; kBusy when somebody does;
// kInvalid for what isn't a url or a host that isn't known.
Status check_server_stopped(const std::string& url);

}  // namespace kvsidecar
