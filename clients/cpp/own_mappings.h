// SPDX-License-Identifier: Apache-2.0
// Whether memory of this process is a shared mapping of a file: the echo's word lies outside the
// engine's own range, so it can't prove the engine's pointer. Reads /proc/self/maps. Any thread.
#pragma once
#include <cstdint>

#include "ipc/result.h"

namespace kvsidecar::clientlib {

// kStaleMapping when [base, base + bytes) isn't a shared mapping of the file from `offset` on. OK
// when it is, or when the system doesn't tell.
Status check_own_mapping(const void* base, uint64_t bytes, int fd, uint64_t offset);

}  // namespace kvsidecar::clientlib
