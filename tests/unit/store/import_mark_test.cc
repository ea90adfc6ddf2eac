// SPDX-License-Identifier: Apache-2.0
// Goal: a segment's directory tells which pages were imported. Method: entries encoded and decoded.
#include <gtest/gtest.h>

#include <array>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

DirectoryEntry decoded(DirectoryEntry entry) {
  std::array<std::byte, kEntryBytes> bytes;
  encode_entry(entry, 5, bytes);
  return decode_entry(bytes, 5, entry.number);
}

TEST(ImportMark, APagesMarkIsKept) {
  DirectoryEntry page;
  page.kind = EntryKind::kPage;
  page.trailer_bytes = 200;
  EXPECT_FALSE(decoded(page).imported);
  page.imported = true;
  EXPECT_TRUE(decoded(page).imported);
  EXPECT_EQ(decoded(page).trailer_bytes, 200u);
}

TEST(ImportMark, ATombstoneHasNone) {
  DirectoryEntry tombstone;
  tombstone.kind = EntryKind::kTombstone;
  tombstone.imported = true;
  tombstone.slot = 7;
  EXPECT_FALSE(decoded(tombstone).imported);
  EXPECT_EQ(decoded(tombstone).slot, 7u);
}

}  // namespace
}  // namespace kvsidecar
