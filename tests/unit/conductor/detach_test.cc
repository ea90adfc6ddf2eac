// SPDX-License-Identifier: Apache-2.0
// Goal: a detached namespace is nobody else's: not by forging its identity, not by a session that
// looks the same. Method: two engines with equal fields.
#include <gtest/gtest.h>

#include "tests/support/engine.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kPage = 64 * 1024;

class Detach : public ::testing::Test {
 protected:
  Detach() : node_({}, remains_, clock_, random_) {}

  FakeClock clock_;
  SeededRandom random_{1};
  NodeRemains remains_;
  Node node_;
};

TEST_F(Detach, DetachedSessionsWithoutAGroupDoNotSharePages) {
  AttachRequest detached;
  detached.detach = true;
  Engine a(node_, clock_, 4ull << 20), b(node_, clock_, 4ull << 20);
  a.set_up(fields_of(kPage), 16, detached);
  b.set_up(fields_of(kPage), 16, detached);
  fill_page(a.block(0), 1);
  ASSERT_EQ(a.wait(a.put({}, {1}, a.layout, {0})).items[0], Code::kOk);
  EXPECT_EQ(a.wait(a.lookup({}, {1})).head.value, 1u);
  EXPECT_EQ(b.wait(b.lookup({}, {1})).head.value, 0u);
}

TEST_F(Detach, AnIdentityThatNamesADetachIsRefused) {
  Engine a(node_, clock_, 4ull << 20);
  NamespaceFields forged = fields_of(kPage);
  forged.detach.emplace();
  const Answer answer = a.wait(a.attach(forged));
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("detach"), std::string::npos) << answer.text;
}

TEST_F(Detach, APoolNamedTwiceInALookupIsRefused) {
  Engine a(node_, clock_, 4ull << 20);
  a.set_up(fields_of(kPage), 16);
  const PoolPolicy twice[2] = {{a.space, HitPolicy::kAllPages, 0},
                               {a.space, HitPolicy::kAllPages, 0}};
  LookupRequest request;
  request.pools = twice;
  const Answer answer = a.wait(a.lookup(request, {1}));
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("pools"), std::string::npos) << answer.text;
}

}  // namespace
}  // namespace kvsidecar::testing
