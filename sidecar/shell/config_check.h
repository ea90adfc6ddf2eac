// SPDX-License-Identifier: Apache-2.0
// What a configuration says about this machine: whether each path is, or can become, what it is
// meant to be. Reads the file system and changes nothing; start-up and --check-config.
#pragma once
#include "sidecar/shell/config.h"

namespace kvsidecar {

// Directories that are something else or that nobody can make, a socket's path that is a directory
// or a file, a store's root that isn't there or that this user may not write. The error names key,
// value and remedy.
Status check_places(const Config& config);

// The keys whose values differ from the defaults, as further fields of a log line:
// " host_pool.bytes=8GiB".
std::string changed_keys(const Config& config);

}  // namespace kvsidecar
