// SPDX-License-Identifier: Apache-2.0
// Goal: the table of namespaces is nobody's to fill: each account has a share, what nothing uses is
// forgotten, and what was cleared stays cleared all the same. Method: small limits, many
// identities; daemons that follow each other over the same records.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

NamespaceFields numbered(int number) {
  NamespaceFields fields = fields_of(64 * 1024);
  fields.model = "model-" + std::to_string(number);
  return fields;
}

class Namespaces : public Rig {
 protected:
  Namespaces() { options.limits.namespaces_max = 8; }
  static Permissions of_entry(uint32_t entry, uint32_t most) {
    Permissions allowed = everything();
    allowed.entry = entry;
    allowed.namespaces_max = most;
    return allowed;
  }
  std::unique_ptr<Engine> session(const Permissions& allowed = everything()) {
    return std::make_unique<Engine>(*node, clock, 1 << 20, allowed);
  }
  Answer attach(Engine& e, int number, AttachRequest more = {}) {
    return e.wait(e.attach(numbered(number), more));
  }
  // Attaches, puts one page and goes.
  void leave_a_page(int number) {
    auto e = engine(numbered(number));
    ASSERT_EQ(put(*e, 1), Code::kOk);
    ASSERT_TRUE(node->settle());
  }
  uint64_t clear(Engine& e, Handle space) {
    return e.wait(e.send(RecordType::kClear, ClearRequest{space, {}})).head.value;
  }
  size_t known() const { return node->conductor().gauges().namespaces; }
};

TEST_F(Namespaces, OneAccountDoesNotTakeTheTableFromAnother) {
  start();
  auto greedy = session(of_entry(1, 3)), other = session(of_entry(2, 3));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(attach(*greedy, i).status(), Code::kOk);
  const Answer refused = attach(*greedy, 3);
  EXPECT_EQ(refused.status(), Code::kOverQuota);
  for (const char* word : {"namespaces", "3", "namespaces_max", "[[allow]]"})
    EXPECT_NE(refused.text.find(word), std::string::npos) << word << ": " << refused.text;
  EXPECT_EQ(attach(*greedy, 2).status(), Code::kOk) << "it has that one already";
  EXPECT_EQ(attach(*other, 3).status(), Code::kOk);
  EXPECT_EQ(attach(*greedy, 3).status(), Code::kOk) << "another account's counts there";
}

TEST_F(Namespaces, WhatNothingUsesMakesRoomAndItsRecordGoes) {
  start();
  for (int i = 0; i < 100; ++i) {
    auto e = session();
    ASSERT_EQ(attach(*e, i).status(), Code::kOk) << i;
    e->die();
    ASSERT_TRUE(node->settle());
    EXPECT_LE(known(), 8u);
  }
  EXPECT_LE(remains.namespaces.records.size(), 8u);
}

TEST_F(Namespaces, OneWithASessionOrAPageIsNotForgotten) {
  with_store = false;
  start();
  auto holder = session();
  ASSERT_EQ(attach(*holder, 0).status(), Code::kOk);
  for (int i = 1; i < 8; ++i) leave_a_page(i);
  const Answer refused = attach(*holder, 8);
  EXPECT_EQ(refused.status(), Code::kOverQuota);
  EXPECT_NE(refused.text.find("limits.namespaces_max"), std::string::npos) << refused.text;
  {
    auto again = engine(numbered(5));
    EXPECT_EQ(get(*again, 1), Code::kOk);
    EXPECT_EQ(erase(*again, 1), Code::kOk);
  }
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(attach(*holder, 8).status(), Code::kOk) << "the deleted page's made room";
  auto again = engine(numbered(6));
  EXPECT_EQ(get(*again, 1), Code::kOk);
}

TEST_F(Namespaces, APageOnlyInTheStoreKeepsItsNamespace) {
  start();
  leave_a_page(0);
  stop();
  lose_memory();
  start();
  auto crowd = session();
  for (int i = 1; i < 20; ++i) attach(*crowd, i);
  auto again = engine(numbered(0));
  EXPECT_EQ(get(*again, 1), Code::kOk);
}

TEST_F(Namespaces, AClearedOneComesBackWithItsGeneration) {
  start();
  {
    auto e = engine(numbered(0));
    ASSERT_EQ(clear(*e, e->space), 2u);
    ASSERT_EQ(clear(*e, e->space), 3u);
  }
  auto crowd = session(of_entry(1, 0));
  for (int i = 1; i < 9; ++i) ASSERT_EQ(attach(*crowd, i).status(), Code::kOk) << i;
  crowd->die();
  ASSERT_TRUE(node->settle());
  EXPECT_GT(count(&Counters::namespaces_forgotten), 0u);
  auto again = session();
  EXPECT_EQ(attach(*again, 0).head.value, 3u);
}

TEST_F(Namespaces, PagesOfAnOlderGenerationKeepOneKnown) {
  with_store = false;
  start();
  {
    auto e = engine(numbered(0));
    ASSERT_EQ(put(*e, 1), Code::kOk);
    ASSERT_EQ(clear(*e, e->space), 2u);
  }
  auto crowd = session(of_entry(1, 0));
  for (int i = 1; i < 8; ++i) ASSERT_EQ(attach(*crowd, i).status(), Code::kOk) << i;
  EXPECT_EQ(attach(*crowd, 8).status(), Code::kOverQuota);
}

TEST_F(Namespaces, AClearedOneIsNotForgottenBeforeTheStoresPagesAreKnown) {
  start();
  leave_a_page(0);
  {
    auto e = engine(numbered(0));
    ASSERT_EQ(clear(*e, e->space), 2u);
  }
  ASSERT_TRUE(node->settle());
  stop();
  lose_memory();
  start(false);
  set_store_faults({.held = true});
  node->conductor().scan_store();
  auto crowd = session();
  for (int i = 1; i < 20; ++i) attach(*crowd, i);
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  crowd->die();
  auto again = engine(numbered(0));
  EXPECT_EQ(place(*again, 1), Place::kMiss);
}

TEST_F(Namespaces, OneThatOnlyItsSessionCanNameLeavesNoRecord) {
  start();
  AttachRequest detached;
  detached.detach = true;
  auto e = engine(numbered(0), detached);
  EXPECT_EQ(clear(*e, e->space), 2u);
  EXPECT_EQ(put(*e, 1), Code::kOk);
  EXPECT_EQ(get(*e, 1), Code::kOk);
  EXPECT_TRUE(remains.namespaces.records.empty());
}

TEST_F(Namespaces, NoAttachIsAnsweredBeforeTheRecordIsSaved) {
  start();
  auto first = session(), second = session();
  const uint64_t one = first->attach(numbered(0)), two = second->attach(numbered(0));
  for (int i = 0; i < 10; ++i) node->conductor().step();  // no reaper turns
  EXPECT_FALSE(first->answer(one).has_value());
  EXPECT_FALSE(second->answer(two).has_value());
  EXPECT_EQ(first->wait(one).status(), Code::kOk);
  EXPECT_EQ(second->wait(two).status(), Code::kOk);
}

TEST_F(Namespaces, WhileItsRecordCantBeReadNobodyAttaches) {
  start();
  remains.namespaces.broken = Status(Code::kCorrupt, "namespaces/12 isn't what it was");
  auto e = session();
  const Answer refused = attach(*e, 0);
  EXPECT_EQ(refused.status(), Code::kCorrupt);
  EXPECT_NE(refused.text.find("namespaces/12"), std::string::npos) << refused.text;
  remains.namespaces.broken = Status();
  EXPECT_EQ(attach(*e, 0).status(), Code::kOk);
}

}  // namespace
}  // namespace kvsidecar::testing
