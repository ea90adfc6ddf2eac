// SPDX-License-Identifier: Apache-2.0
// Goal: the sizes that callers compute from and the entry points that they resolve. Method: plain
// calls; the structs' offsets are asserted where they are declared.
#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

using Layout = Bed;

TEST_F(Layout, ARingTakesNinetySixBytesForEachEntryAndOneMore) {
  EXPECT_EQ(library_.ior_size(1), 4336u);
  EXPECT_EQ(library_.ior_size(64), 10'384u);
  EXPECT_EQ(library_.ior_size(1024), 102'544u);
}

TEST_F(Layout, ARingHasTheEntriesThatWereAskedFor) {
  for (const int entries : {1, 2, 7, 8, 100, 1024}) {
    Ring ring;
    make(ring, entries);
    EXPECT_EQ(library_.io_entries(&ring), entries);
  }
}

}  // namespace
}  // namespace kvsidecar::abi
