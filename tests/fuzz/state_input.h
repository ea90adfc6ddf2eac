// SPDX-License-Identifier: Apache-2.0
// What the bytes of state_fuzz mean: a number of files, one after the other. Each begins with a
// StateFile; then come `bytes` bytes: its content, or with kStateEdits changes (u8 offset, u8
// value) of a file that a daemon wrote.
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum class StateName : uint8_t {
  kNode,         // state directory: the node's uuid
  kEpoch,        // its epochs
  kNamespace,    // a namespace's record, under the name of what it holds
  kMisnamed,     // the same under another name
  kTemporary,    // what a kill left of either
  kOwner,        // the node's folder of the store: who has it
  kFolderEpoch,  // and its epochs
  kSegment,      // a name of a segment: content[0] = 0xff makes it the last epoch's
  kNames
};
enum StateFileMode : uint8_t {
  kStateEdits = 1,        // else: the content as it is
  kStateRightChecks = 2,  // the check at the file's end is made right afterwards
  kStateShort = 4         // cut in the middle
};
struct StateFile {
  uint8_t name, mode, number, bytes;
};
static_assert(sizeof(StateFile) == 4);

}  // namespace kvsidecar::fuzz
