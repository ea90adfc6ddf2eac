// SPDX-License-Identifier: Apache-2.0
// open_builtin() of client.h with the places where a test makes it fail: usrbio.mount.open,
// usrbio.register, usrbio.ring.{open,allocate,map,link}, usrbio.semaphore.{link,open},
// usrbio.file.identify.
#pragma once
#include "sidecar/env.h"
#include "sidecar/store/usrbio/client.h"

namespace kvsidecar::usrbio {

// faults outlive the client.
Result<std::unique_ptr<Client>> open_builtin(const std::string& path, FaultPoints& faults);

}  // namespace kvsidecar::usrbio
