// SPDX-License-Identifier: Apache-2.0
// Goal: a peer gets exactly what the first entry that matches gives it, or the default, or nothing.
// Method: made-up credentials against made-up entries.
#include "sidecar/shell/allow_rules.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

constexpr uint32_t kOwnUid = 900, kClientGid = 77;

PeerIdentity peer(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
  return {1234, uid, gid, std::move(groups)};
}

AllowEntry entry(std::vector<uint32_t> uids, std::vector<uint32_t> gids, uint32_t number) {
  AllowEntry made;
  made.uids = std::move(uids);
  made.gids = std::move(gids);
  made.permissions.read = true;
  made.permissions.entry = number;
  return made;
}

TEST(AllowRules, WithoutEntriesTheOwnUserAndRootMayDoEverything) {
  const AllowRules rules({}, kOwnUid, kClientGid);
  for (const uint32_t uid : {kOwnUid, 0u}) {
    const Result<Permissions> found = rules.find(peer(uid, 5));
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->read && found->put && found->clear && found->admin);
    EXPECT_EQ(found->entry, 0u);
  }
}

TEST(AllowRules, WithoutEntriesMembersOfTheGroupMayReadPutAndClear) {
  const AllowRules rules({}, kOwnUid, kClientGid);
  for (const PeerIdentity& member : {peer(5, kClientGid), peer(5, 6, {8, kClientGid})}) {
    const Result<Permissions> found = rules.find(member);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->read && found->put && found->clear);
    EXPECT_FALSE(found->admin);
  }
}

TEST(AllowRules, WithoutEntriesAStrangerIsRefusedWithTheRemedy) {
  const Result<Permissions> found = AllowRules({}, kOwnUid, kClientGid).find(peer(5, 6, {7}));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kDenied);
  EXPECT_NE(found.status().text().find("uid 5"), std::string::npos);
  EXPECT_NE(found.status().text().find("[[allow]]"), std::string::npos);
}

TEST(AllowRules, OnAMachineWithoutTheGroupOnlyTheOwnUserAndRootAttach) {
  const AllowRules rules({}, kOwnUid, std::nullopt);
  EXPECT_TRUE(rules.find(peer(kOwnUid, 5)).ok());
  EXPECT_FALSE(rules.find(peer(5, kClientGid)).ok());
}

TEST(AllowRules, TheFirstEntryThatMatchesDecides) {
  const AllowRules rules({entry({5}, {}, 1), entry({}, {6}, 2)}, kOwnUid, kClientGid);
  EXPECT_EQ(rules.find(peer(5, 6))->entry, 1u);
  EXPECT_EQ(rules.find(peer(4, 6))->entry, 2u);
  EXPECT_EQ(rules.find(peer(4, 1, {9, 6}))->entry, 2u);
}

TEST(AllowRules, WithEntriesNobodyElseAttachesNotEvenRoot) {
  const AllowRules rules({entry({5}, {}, 1)}, kOwnUid, kClientGid);
  for (const PeerIdentity& other : {peer(0, 0), peer(kOwnUid, 1), peer(6, kClientGid)})
    EXPECT_EQ(rules.find(other).status().code(), Code::kDenied);
}

}  // namespace
}  // namespace kvsidecar
