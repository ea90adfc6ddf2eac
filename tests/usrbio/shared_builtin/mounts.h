// SPDX-License-Identifier: Apache-2.0
// What the library keeps for the process: the mounts it has used, the files registered with it.
// Any thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sidecar/store/usrbio/mount.h"

namespace kvsidecar::shared_builtin {

// The mount at that place, opened at first use and kept; 0 or -errno.
int mount_at(const char* mount_point, std::shared_ptr<usrbio::Mount>& mount);

// A mount point that a struct can hold.
bool is_possible(const char* mount_point);

// The file registered under that number.
std::optional<usrbio::FileIdentity> registered(int fd);

// What the call returns; -ENOMEM if there is no memory for it.
int without_exceptions(const std::function<int()>& call) noexcept;

}  // namespace kvsidecar::shared_builtin
