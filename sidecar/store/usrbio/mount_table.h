// SPDX-License-Identifier: Apache-2.0
// What /proc/self/mountinfo says about 3FS. Pure: the text comes in.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvsidecar::usrbio {

struct MountEntry {
  std::string device;  // "major:minor": equal for all mounts of one file system
  std::string root;    // the folder of that file system which is mounted
  std::string point;
  std::string type;
};

// Lines that aren't as documented are left out. Octal escapes (\040 is a space) are decoded.
std::vector<MountEntry> parse_mount_table(std::string_view text);

// The mount that holds the path (absolute, no links, no dots in it): the longest mount point above
// it, the last one of equals. Null: none.
const MountEntry* mount_that_holds(const std::vector<MountEntry>& table, std::string_view path);

// Mount points through which the virtual folder of that entry's file system may be reached, the
// best first: those above the path, the longest first, then the others. A mount of the virtual
// folder itself, at …/3fs-virt, counts as its parent.
std::vector<std::string> ways_to_virtual_folder(const std::vector<MountEntry>& table,
                                                const MountEntry& entry, std::string_view path);

}  // namespace kvsidecar::usrbio
