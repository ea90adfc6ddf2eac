// SPDX-License-Identifier: Apache-2.0
// The calling thread's last error, and turning Status into kvs_status. Any thread.
#pragma once
#include <string>

#include "clients/cpp/kvsidecar_status.h"
#include "ipc/result.h"

namespace kvsidecar::clientlib {

// Both return their code and keep the sentence for kvs_last_error().
kvs_status fail(Code code, std::string text);
kvs_status told(const Status& status);
const char* last_error();

}  // namespace kvsidecar::clientlib
