// SPDX-License-Identifier: Apache-2.0
// What the bytes of store_fuzz mean: a number of files, one after the other. Each begins with a
// StoreFile; then come `bytes` bytes: its content, or with kEdits changes (u16 offset, u8 value) of
// a segment that the real encoders wrote.
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum StoreFileMode : uint8_t {
  kEdits = 1,        // else: the content as it is
  kRightChecks = 2,  // checks of superblock and entries are made right afterwards
  kCarrier = 4,      // kEdits: a segment of tombstones instead of pages
  kShort = 8         // cut in the middle
};
struct StoreFile {
  uint8_t mode, epoch, sequence, reserved;
  uint16_t bytes;
};
static_assert(sizeof(StoreFile) == 6);

}  // namespace kvsidecar::fuzz
