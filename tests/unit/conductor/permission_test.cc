// SPDX-License-Identifier: Apache-2.0
// Goal: a peer does what its [[allow]] entry lists and takes what its quotas leave, and is told so
// in a sentence. Method: sessions with one permission or a small quota beside one that has all.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Allowed : public Rig {
 protected:
  Allowed() { with_store = false; }
  void SetUp() override { start(); }
  static void expect(const Answer& answer, Code code, const std::vector<std::string>& words) {
    EXPECT_EQ(answer.status(), code) << answer.text;
    for (const std::string& word : words)
      EXPECT_NE(answer.text.find(word), std::string::npos)
          << "no '" << word << "' in: " << answer.text;
  }
  static Permissions only(bool read, bool put_allowed) {
    Permissions allowed;
    allowed.read = read;
    allowed.put = put_allowed;
    allowed.entry = 1;
    return allowed;
  }
};

TEST_F(Allowed, AReaderDoesNotPutDeleteOrClear) {
  auto owner = engine(), reader = engine(fields_of(kPage), {}, only(true, false));
  ASSERT_EQ(put(*owner, 1), Code::kOk);
  EXPECT_EQ(get(*reader, 1), Code::kOk);
  expect(reader->wait(reader->put({}, {2}, reader->layout, {0})), Code::kDenied,
         {"put", "[[allow]]"});
  const std::vector<std::byte> key = key_of(1);
  expect(reader->wait(
             reader->send(RecordType::kDelete, DeleteRequest{reader->space, {Bytes(key), 32}})),
         Code::kDenied, {"delete", "clear"});
  expect(reader->wait(reader->send(RecordType::kClear, ClearRequest{reader->space, {}})),
         Code::kDenied, {"clear", "[[allow]]"});
  EXPECT_EQ(place(*owner, 1), Place::kHost);
}

TEST_F(Allowed, AWriterDoesNotRead) {
  auto owner = engine(), writer = engine(fields_of(kPage), {}, only(false, true));
  EXPECT_EQ(put(*writer, 1), Code::kOk);
  expect(writer->wait(writer->get({}, {1}, writer->layout, {1})), Code::kDenied, {"get", "read"});
  expect(writer->wait(writer->lookup({}, {1})), Code::kDenied, {"lookup", "read"});
  const std::vector<std::byte> key = key_of(1);
  expect(writer->wait(writer->send(RecordType::kWhy, WhyRequest{{}, Bytes(key), 0})), Code::kDenied,
         {"why", "read"});
  EXPECT_EQ(get(*owner, 1), Code::kOk);
}

TEST_F(Allowed, OnlyAnAdminSeesSessionsOrDrains) {
  auto plain = engine(fields_of(kPage), {}, only(true, true));
  EXPECT_EQ(plain->wait(plain->send(RecordType::kStat, StatRequest{StatWhat::kStatus, 0})).status(),
            Code::kOk);
  for (const StatWhat what : {StatWhat::kSessions, StatWhat::kNamespaces, StatWhat::kDrain})
    expect(plain->wait(plain->send(RecordType::kStat, StatRequest{what, 0})), Code::kDenied,
           {"drain", "admin", "[[allow]]"});
  EXPECT_EQ(put(*plain, 1), Code::kOk);  // nobody drains
}

TEST_F(Allowed, ATenantSaltMustBeListed) {
  NamespaceFields fields = fields_of(kPage);
  fields.tenant_salt = "tenant-a";
  Permissions allowed = only(true, true);
  allowed.tenant_salts = {"tenant-b"};
  Engine other(*node, clock, 1 << 20, allowed);
  expect(other.wait(other.attach(fields)), Code::kDenied, {"tenant_salt", "tenant_salts"});
  allowed.tenant_salts = {"tenant-a"};
  Engine owner(*node, clock, 1 << 20, allowed);
  EXPECT_EQ(owner.wait(owner.attach(fields)).status(), Code::kOk);
  // Who names none would share with all others that name none.
  expect(owner.wait(owner.attach(fields_of(kPage))), Code::kDenied,
         {"none is named", "tenant_salts"});
  for (const std::vector<std::string>& salts : {{"tenant-a", ""}, std::vector<std::string>{}}) {
    allowed.tenant_salts = salts;
    Engine unsalted(*node, clock, 1 << 20, allowed);
    EXPECT_EQ(unsalted.wait(unsalted.attach(fields_of(kPage))).status(), Code::kOk);
  }
}

TEST_F(Allowed, APutOverThePoolQuotaIsRefusedAndOthersAreNot) {
  Permissions small = everything();
  small.entry = 1;
  small.pool_bytes_max = 2 * (kPage + kPage / 8);
  auto bounded = engine(fields_of(kPage), {}, small), free = engine();
  EXPECT_EQ(put(*bounded, 1), Code::kOk);
  EXPECT_EQ(put(*bounded, 2), Code::kOk);
  EXPECT_EQ(put(*bounded, 3), Code::kOverQuota);
  EXPECT_EQ(put(*free, 3), Code::kOk);
  EXPECT_EQ(erase(*bounded, 1), Code::kOk);
  EXPECT_EQ(put(*bounded, 4), Code::kOk);
}

TEST_F(Allowed, APageOfAnOddSizeCountsWhatItTakesOfItsSpans) {
  constexpr uint64_t kOdd = 176 * 1024;  // one in a span of 256 KiB, five in four
  Permissions small = everything();
  small.entry = 1;
  small.pool_bytes_max = 3 * kOdd;
  Engine bounded(*node, clock, 4ull << 20, small);
  bounded.set_up(fields_of(kOdd), 16);
  uint64_t pages = 0;
  while (put(bounded, pages) == Code::kOk) ++pages;
  const HostPool::Usage usage = node->pool().usage();
  const uint64_t spans_taken = usage.spans - usage.spans_empty;
  const uint64_t of_each = spans_taken * options.span_bytes / (usage.slots_full + usage.slots_free);
  EXPECT_GT(of_each, kOdd);
  EXPECT_LE(pages * of_each, small.pool_bytes_max + of_each - kOdd);
}

TEST_F(Allowed, BytesInFlightAreBoundedOverAllSessionsOfAnEntry) {
  Permissions small = everything();
  small.entry = 1;
  small.bytes_in_flight_max = 2 * kPage;
  auto a = engine(fields_of(kPage), {}, small), b = engine(fields_of(kPage), {}, small);
  PutRequest waits;
  waits.fence = {1, 0, 1};
  const uint64_t held = a->put(waits, {1, 2}, a->layout, {0, 1});
  ASSERT_TRUE(node->settle());
  expect(b->wait(b->put({}, {3}, b->layout, {0})), Code::kOverQuota,
         {"bytes", std::to_string(2 * kPage), "bytes_in_flight_max"});
  a->session_memory().fence(1)->store(1);
  a->wait(held);
  EXPECT_EQ(put(*b, 3), Code::kOk);
}

TEST_F(Allowed, RegionBytesAreBounded) {
  Permissions small = everything();
  small.entry = 1;
  small.region_bytes_max = 1 << 20;
  Engine e(*node, clock, 4ull << 20, small);
  expect(e.wait(e.register_region()), Code::kOverQuota, {"region", "region_bytes_max", "1048576"});
}

TEST_F(Allowed, SessionsAreCountedPerEntryAndComeBack) {
  Permissions two = everything();
  two.entry = 1;
  two.sessions_max = 2;
  Engine a(*node, clock, 1 << 20, two);
  auto b = std::make_unique<Engine>(*node, clock, 1 << 20, two);
  EXPECT_FALSE(node->conductor().has_session_room(two));
  EXPECT_TRUE(node->conductor().has_session_room(everything()));
  b->die();
  EXPECT_TRUE(node->conductor().has_session_room(two));
}

TEST_F(Allowed, ADrainingDaemonTakesNoNewWorkAndFinishesTheOld) {
  auto admin = engine(), other = engine();
  PutRequest waits;
  waits.fence = {1, 0, 1};
  const uint64_t old = other->put(waits, {1}, other->layout, {0});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(admin->wait(admin->send(RecordType::kStat, StatRequest{StatWhat::kDrain, 0})).status(),
            Code::kOk);
  expect(other->wait(other->put({}, {2}, other->layout, {1})), Code::kDraining, {"shutting down"});
  EXPECT_FALSE(node->conductor().drained());
  other->session_memory().fence(1)->store(1);
  EXPECT_EQ(other->wait(old).items[0], Code::kOk);
  EXPECT_TRUE(node->conductor().drained());
}

}  // namespace
}  // namespace kvsidecar::testing
