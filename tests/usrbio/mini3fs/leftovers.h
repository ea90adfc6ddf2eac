// SPDX-License-Identifier: Apache-2.0
// The folder of one mini3fs for a test, "kvsidecar.test-mini3fs-PID-…", and what may be left of
// it.
#pragma once
#include <string>

#include "ipc/result.h"

namespace kvsidecar::fake3fs {

Result<std::string> make_test_folder();  // named after this process
// Takes away the mount, the semaphores and the folder; the server is dead already.
void remove_test_folder(const std::string& folder);
void remove_folders_of_dead_tests();

}  // namespace kvsidecar::fake3fs
