// SPDX-License-Identifier: Apache-2.0
// What the doctor makes of a store on 3FS. Pure; any thread.
#pragma once
#include <string>
#include <vector>

#include "clients/cli/account.h"
#include "clients/cli/doctor_checks.h"

namespace kvsidecar {

// Where the 3FS that holds the path is mounted, by the text of /proc/self/mountinfo; empty: the
// path lies on none. Nothing is asked of the mount, which may be dead.
std::string mount_3fs_of(const std::string& mountinfo, const std::string& path);

// The mount and how it is reached. described: what the daemon says of its store, empty: nobody
// answers. mount: from mount_3fs_of(); statvfs_error: errno of looking at it, 0: it answers.
Check check_3fs(const std::string& root, const std::string& mount, int statvfs_error,
                const std::string& described);
// The memory that the node's one pool owns beside what the engines' own 3FS clients would own.
Check check_3fs_memory(const Account& account);

// All of them; none where the store has nothing to do with 3FS.
std::vector<Check> check_3fs_store(const std::string& root, const std::string& described,
                                   const Account* account);

}  // namespace kvsidecar
