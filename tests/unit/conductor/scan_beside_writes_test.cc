// SPDX-License-Identifier: Apache-2.0
// Goal: a scan that meets what this daemon has written itself takes none of it away, whatever
// numbers daemon and store give their lives. Method: write first, scan then.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class ScanBesideWrites : public Rig {};

TEST_F(ScanBesideWrites, ASegmentWhosePagesAreKnownStays) {
  options.epoch = 1'796'069'059;  // of the state directory; the store counts by itself
  start(/*scan=*/false);
  auto a = engine();
  ASSERT_EQ(put(*a, 1, true), Code::kOk);
  node->conductor().scan_store();
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->count(StoreOp::kUnlink), 0u);
  EXPECT_EQ(disk->pages(), 1u);
}

}  // namespace
}  // namespace kvsidecar::testing
