// SPDX-License-Identifier: Apache-2.0
// Goal: the ranks of one engine get one answer, or nothing, whenever they ask and whoever dies.
// Method: two ranks (and a coordinator) that ask under tickets, with time and pages moving between.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Groups : public Rig {
 protected:
  Groups() { with_store = false; }
  AttachRequest as_rank(uint16_t rank, uint16_t size = 2) {
    AttachRequest attach;
    attach.group = Bytes(group_);
    attach.group_size = size;
    attach.rank = rank;
    return attach;
  }
  std::unique_ptr<Engine> rank(uint16_t number) {
    return engine(fields_of(kPage), as_rank(number));
  }
  Answer ask(Engine& e, uint64_t ticket, const std::vector<uint64_t>& keys, uint32_t lease_ms = 0) {
    LookupRequest lookup;
    lookup.ticket = ticket;
    lookup.lease_ms = lease_ms;
    return e.wait(e.lookup(lookup, keys));
  }
  Answer try_attach(const AttachRequest& attach) {
    Engine e(*node, clock, 1 << 20);
    return e.wait(e.attach(fields_of(kPage), attach));
  }

 private:
  std::array<std::byte, 16> group_{std::byte{1}};
};

// O2-01
TEST_F(Groups, TheFirstAnswerIsEveryRanks) {
  start();
  auto r0 = rank(0), r1 = rank(1), other = engine();
  EXPECT_EQ(ask(*r0, 1, {1, 2}).head.value, 0u);
  ASSERT_EQ(put(*other, 1), Code::kOk);
  const Answer late = ask(*r1, 1, {1, 2});
  EXPECT_EQ(late.status(), Code::kOk);
  EXPECT_EQ(late.head.value, 0u);  // though it is there by now
  EXPECT_EQ(place(*r1, 1), Place::kHost);
}

TEST_F(Groups, APageThatHasGoneSinceIsAMissOfTheGet) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  ASSERT_EQ(put(*r0, 1), Code::kOk);
  EXPECT_EQ(ask(*r0, 1, {1}).head.value, 1u);
  ASSERT_EQ(erase(*r0, 1), Code::kOk);
  EXPECT_EQ(ask(*r1, 1, {1}).head.value, 1u);
  EXPECT_EQ(get(*r1, 1), Code::kMiss);
}

TEST_F(Groups, AnotherRequestUnderTheSameTicketIsAnError) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  ask(*r0, 7, {1});
  const Answer answer = ask(*r1, 7, {2});
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("ticket 7 was used for another lookup"), std::string::npos);
}

TEST_F(Groups, AllRanksShareTheLease) {
  start();
  auto r0 = rank(0), r1 = rank(1), other = engine();
  ASSERT_EQ(put(*r0, 1), Code::kOk);
  const Handle lease = ask(*r0, 1, {1}, 5'000).head.handle;
  ASSERT_NE(lease, 0u);
  EXPECT_EQ(ask(*r1, 1, {1}, 5'000).head.handle, lease);
  EXPECT_EQ(node->conductor().gauges().lease_pages, 1u);
  GetRequest under;
  under.lease = lease;
  EXPECT_EQ(r1->wait(r1->get(under, {1}, r1->layout, {1})).items[0], Code::kOk);
  EXPECT_EQ(other->wait(other->get(under, {1}, other->layout, {1})).status(), Code::kUnknownHandle);
}

TEST_F(Groups, AfterTheLeasesEndALateRankGetsNothing) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  ASSERT_EQ(put(*r0, 1), Code::kOk);
  ASSERT_NE(ask(*r0, 1, {1}, 2'000).head.handle, 0u);
  clock.advance_ns(10'000'000'000);
  ASSERT_TRUE(node->settle());
  const Answer late = ask(*r1, 1, {1}, 2'000);
  EXPECT_EQ(late.status(), Code::kExpired) << late.text;
  EXPECT_EQ(count(&Counters::tickets_expired), 1u);
}

TEST_F(Groups, WithoutALeaseATicketLivesUntilItsDeadline) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  ask(*r0, 1, {1});
  clock.advance_ns(r0->timeout_ns / 2);
  ask(*r0, 2, {1});
  EXPECT_EQ(ask(*r1, 1, {1}).status(), Code::kOk);
  clock.advance_ns(2 * r0->timeout_ns);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(ask(*r1, 2, {1}).status(), Code::kExpired);
}

TEST_F(Groups, ARanksDeathEndsTheLeasesAndTicketsOfAll) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  ASSERT_EQ(put(*r0, 1), Code::kOk);
  ASSERT_NE(ask(*r0, 1, {1}, 60'000).head.handle, 0u);
  r0->die();
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->conductor().gauges().leases, 0u);
  EXPECT_EQ(ask(*r1, 1, {1}, 60'000).status(), Code::kExpired);
  auto again = rank(0);  // comes back, and the group goes on
  EXPECT_EQ(ask(*again, 2, {1}, 1'000).head.value, 1u);
  EXPECT_EQ(ask(*r1, 2, {1}, 1'000).head.value, 1u);
}

TEST_F(Groups, TheCoordinatorAsksWithoutBeingCounted) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  auto coordinator = engine(fields_of(kPage), as_rank(kCoordinatorRank));
  ASSERT_EQ(put(*r0, 1), Code::kOk);
  const Handle lease = ask(*coordinator, 1, {1}, 60'000).head.handle;
  EXPECT_EQ(ask(*r0, 1, {1}, 60'000).head.handle, lease);
  clock.advance_ns(1'000'000'000);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(ask(*r1, 1, {1}, 60'000).head.handle, lease);  // two have asked, one rank had not
  coordinator->die();
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->conductor().gauges().leases, 0u);
}

TEST_F(Groups, EachRankAttachesOnceAndAllNameOneSize) {
  start();
  auto r0 = rank(0);
  const Answer twice = try_attach(as_rank(0));
  EXPECT_EQ(twice.status(), Code::kInvalid);
  EXPECT_NE(twice.text.find("rank 0 of the group is attached already"), std::string::npos);
  const Answer other_size = try_attach(as_rank(1, 3));
  EXPECT_EQ(other_size.status(), Code::kInvalid);
  EXPECT_NE(other_size.text.find("group_size 3"), std::string::npos) << other_size.text;
  EXPECT_EQ(try_attach(as_rank(2)).status(), Code::kInvalid);
  auto r1 = rank(1);
  EXPECT_EQ(ask(*r1, 1, {1}).status(), Code::kOk);
}

TEST_F(Groups, ATicketNeedsAGroup) {
  start();
  auto alone = engine();
  const Answer answer = ask(*alone, 5, {1});
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("ticket 5 needs a group"), std::string::npos) << answer.text;
}

TEST_F(Groups, OpenTicketsAreBounded) {
  start();
  auto r0 = rank(0), r1 = rank(1);
  r0->timeout_ns = 500'000'000'000;
  Code last = Code::kOk;
  uint64_t ticket = 0;
  while (last == Code::kOk && ticket < 10'000) last = ask(*r0, ++ticket, {1}).status();
  EXPECT_EQ(last, Code::kBusy);
  EXPECT_EQ(ask(*r1, 1, {1}).status(), Code::kOk);  // those that are open are served
}

TEST_F(Groups, ADetachedGroupSharesWithNobody) {
  start();
  AttachRequest attach = as_rank(0);
  attach.detach = true;
  auto detached = engine(fields_of(kPage), attach), plain = engine();
  ASSERT_EQ(put(*detached, 1), Code::kOk);
  EXPECT_EQ(place(*plain, 1), Place::kMiss);
  attach.rank = 1;
  auto rank1 = engine(fields_of(kPage), attach);
  EXPECT_EQ(place(*rank1, 1), Place::kHost);
}

}  // namespace
}  // namespace kvsidecar::testing
