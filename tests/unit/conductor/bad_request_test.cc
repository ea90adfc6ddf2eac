// SPDX-License-Identifier: Apache-2.0
// Goal: a request that can't be is answered with a sentence that names field, value and remedy; its
// session goes on, and so does everybody else. Method: each wrong in one thing; after each the
// sender and a bystander still put and get.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class BadRequest : public Rig {
 protected:
  BadRequest() { with_store = false; }
  void SetUp() override {
    options.epoch = 2;
    start();
    a_ = engine();
    bystander_ = engine();
  }
  void TearDown() override {
    for (Engine* e : {a_.get(), bystander_.get()}) {
      EXPECT_TRUE(node->conductor().session_alive(e->session()));
      EXPECT_EQ(put(*e, e->session()), Code::kOk);
      EXPECT_EQ(get(*e, e->session()), Code::kOk);
    }
    a_.reset();
    bystander_.reset();
  }
  void expect(uint64_t request, Code code, const std::vector<std::string>& words) {
    const Answer answer = a_->wait(request);
    EXPECT_EQ(answer.status(), code) << answer.text;
    for (const std::string& word : words)
      EXPECT_NE(answer.text.find(word), std::string::npos)
          << "no '" << word << "' in: " << answer.text;
  }
  // A put of one key into block 0 of `layout`, to be made wrong.
  struct OnePut {
    std::vector<std::byte> key = key_of(1);
    Block block{};
    PutRequest request;
  };
  std::unique_ptr<OnePut> one_put() {
    auto put = std::make_unique<OnePut>();
    put->block = {a_->layout, 0, a_->take_claims(a_->next_request(), 1)[0]};
    put->request.namespace_handle = a_->space;
    put->request.keys = {Bytes(put->key), 32};
    put->request.items.blocks = {&put->block, 1};
    return put;
  }
  uint64_t send(const OnePut& put) { return a_->send(RecordType::kPut, put.request); }

  std::unique_ptr<Engine> a_, bystander_;
};

TEST_F(BadRequest, AnUnknownNamespace) {
  auto put = one_put();
  put->request.namespace_handle = a_->space + 77;
  expect(send(*put), Code::kUnknownHandle, {"namespace handle", std::to_string(a_->space + 77)});
}

TEST_F(BadRequest, AHandleOfAnEarlierEpoch) {
  auto put = one_put();
  put->request.namespace_handle = (uint64_t{1} << 48) | 1;
  expect(send(*put), Code::kStaleHandle,
         {"namespace handle", "earlier epoch", "register it again"});
  auto other = one_put();
  other->block.layout = (uint64_t{1} << 48) | 2;
  expect(send(*other), Code::kStaleHandle, {"item 0", "layout handle", "earlier epoch"});
}

TEST_F(BadRequest, AnUnknownLayoutGivesTheClaimBack) {
  auto put = one_put();
  put->block.layout = a_->layout + 99;
  const uint64_t request = send(*put);
  expect(request, Code::kUnknownHandle, {"item 0", "layout handle", "not this session's"});
  EXPECT_EQ(a_->claim(request, 0).state(), ClaimState::kSkipped);
}

TEST_F(BadRequest, AnotherSessionsLayout) {
  auto put = one_put();
  put->block.layout = bystander_->layout;
  expect(send(*put), Code::kUnknownHandle, {"layout handle", "not this session's"});
}

TEST_F(BadRequest, AnUnknownLease) {
  const Handle lease = (uint64_t{2} << 48) | 4711;
  expect(a_->send(RecordType::kRelease, ReleaseRequest{lease}), Code::kExpired,
         {"lease", std::to_string(lease), "look the prompt up again"});
}

// O11-03
TEST_F(BadRequest, ABlockBeyondTheLayout) {
  auto put = one_put();
  put->block.block = 32;
  expect(send(*put), Code::kInvalid, {"item 0", "block 32", "32"});
}

TEST_F(BadRequest, AClaimAndAFenceBeyondTheSessions) {
  auto put = one_put();
  put->block.claim = 1024;
  expect(send(*put), Code::kInvalid, {"claim 1024", "item 0", "1024"});
  auto other = one_put();
  other->request.fence = {64, 0, 1};
  expect(send(*other), Code::kInvalid, {"fence 64", "64"});
}

TEST_F(BadRequest, ProgressBeyondTheSessionsWords) {
  GetRequest get;
  get.progress = 16;
  expect(a_->get(get, {1}, a_->layout, {1}), Code::kInvalid, {"progress 16", "16"});
}

TEST_F(BadRequest, KeysOfNoLengthAndOfTooMuch) {
  auto put = one_put();
  put->request.keys.key_bytes = 0;
  expect(send(*put), Code::kInvalid, {"key_bytes is 0", "1 to 64"});
  auto other = one_put();
  other->key = std::vector<std::byte>(65);
  other->request.keys = {Bytes(other->key), 65};
  expect(send(*other), Code::kInvalid, {"key_bytes is 65", "1 to 64"});
  const std::vector<std::byte> odd(33);
  auto third = one_put();
  third->request.keys = {Bytes(odd), 32};
  expect(send(*third), Code::kInvalid, {"keys", "33", "multiple of key_bytes"});
}

TEST_F(BadRequest, NoItems) {
  auto put = one_put();
  put->request.keys.bytes = {};
  put->request.items = {};
  expect(send(*put), Code::kInvalid, {"items", "0", "1 to 2048"});
}

TEST_F(BadRequest, ALookupThatClaims100000Keys) {
  LookupRequest lookup;
  lookup.total = 100'000;
  expect(a_->lookup(lookup, {1}), Code::kInvalid, {"total is 100000", "32768"});
}

TEST_F(BadRequest, ARecordThatClaims100000Items) {
  auto put = one_put();
  Encoded record;
  encode(put->request, record);
  // The length before the keys' 32 bytes: a FlatBuffers vector.
  const auto key = std::search(record.begin(), record.end(), put->key.begin(), put->key.end());
  ASSERT_NE(key, record.end());
  const uint32_t claimed = 100'000 * 32;
  std::memcpy(&*(key - 4), &claimed, sizeof claimed);
  expect(a_->send_record(RecordType::kPut, record), Code::kInvalid, {"put", "size", "FlatBuffer"});
}

TEST_F(BadRequest, FewerItemsThanKeys) {
  auto put = one_put();
  const std::vector<std::byte> two(64);
  put->request.keys.bytes = two;
  expect(send(*put), Code::kInvalid, {"items", "2 keys"});
}

TEST_F(BadRequest, RunsThatDontSumToThePart) {
  for (const uint64_t bytes : {kPage - 8, kPage + 8}) {
    auto put = one_put();
    const RunItem item{0, 1, put->block.claim, 0};
    const kvsidecar::Run run{a_->region, 0, bytes};
    put->request.items = {{}, {&item, 1}, {&run, 1}};
    expect(send(*put), Code::kInvalid, {"item 0", "sum to", std::to_string(kPage)});
  }
}

TEST_F(BadRequest, ARunThatLeavesItsRegion) {
  for (const uint64_t offset : {(uint64_t{4} << 20) - 8, UINT64_MAX - 8}) {
    auto put = one_put();
    const RunItem item{0, 1, put->block.claim, 0};
    const kvsidecar::Run run{a_->region, offset, kPage};
    put->request.items = {{}, {&item, 1}, {&run, 1}};
    expect(send(*put), Code::kInvalid, {"offset", std::to_string(offset)});
  }
}

TEST_F(BadRequest, ALayoutOfAnotherPartsSize) {
  const Handle half = a_->wait(a_->register_layout(a_->region, 4, kPage / 2)).head.handle;
  auto put = one_put();
  put->block.layout = half;
  expect(send(*put), Code::kInvalid,
         {"sum to " + std::to_string(kPage / 2), std::to_string(kPage), "layout of this part"});
}

TEST_F(BadRequest, ACoordinateThatIsNoPart) {
  auto put = one_put();
  put->request.has_coordinate = true;
  put->request.coordinate.tp = 3;
  expect(send(*put), Code::kInvalid, {"coordinate (tp 3", "no part of the namespace"});
}

TEST_F(BadRequest, TwoPartsOfOneCoordinate) {
  NamespaceFields fields = fields_of(kPage, 2);
  std::vector<std::byte> encoded = encode_identity(fields).take();
  // tp 1 of the second part, before its size.
  const uint64_t second[2] = {1, kPage};
  const auto* bytes = reinterpret_cast<const std::byte*>(second);
  const auto at = std::search(encoded.begin(), encoded.end(), bytes, bytes + sizeof second);
  ASSERT_NE(at, encoded.end());
  *at = std::byte{0};
  AttachRequest attach;
  attach.identity = encoded;
  expect(a_->send(RecordType::kAttach, attach), Code::kInvalid, {"coordinate"});
}

TEST_F(BadRequest, APageThatNoChunkHasRoomFor) {
  const uint64_t chunk = options.pool_bytes;
  for (const uint64_t bytes : {chunk, chunk - 4096}) {
    const Answer answer = a_->wait(a_->attach(fields_of(bytes)));
    EXPECT_EQ(answer.status() == Code::kOk, bytes < chunk) << answer.text;
    if (bytes < chunk) continue;
    for (const std::string word : {"page_bytes", "1048576", "1044480", "host_pool.chunk_bytes"})
      EXPECT_NE(answer.text.find(word), std::string::npos) << word << ": " << answer.text;
  }
}

TEST_F(BadRequest, AnIdentityWithoutAFieldThatDecidesBytes) {
  std::vector<std::byte> encoded = encode_identity(fields_of(kPage)).take();
  encoded.resize(encoded.size() / 2);
  AttachRequest attach;
  attach.identity = encoded;
  expect(a_->send(RecordType::kAttach, attach), Code::kInvalid, {"identity"});
}

TEST_F(BadRequest, ADescriptionOverTheAttachsReserve) {
  auto put = one_put();
  const std::vector<std::byte> description(100);
  const uint32_t end = 100;
  put->request.descriptions = description;
  put->request.description_ends = {&end, 1};
  expect(send(*put), Code::kInvalid,
         {"description of item 0", "100", "raise its description_bytes_max"});
}

TEST_F(BadRequest, ADeadlineThatIsNoneOrTooFar) {
  a_->timeout_ns = 0 - clock.now_ns();
  expect(a_->lookup({}, {1}), Code::kInvalid, {"deadline_ns is 0", "CLOCK_MONOTONIC"});
  a_->timeout_ns = 3600'000'000'000;
  expect(a_->lookup({}, {1}), Code::kInvalid, {"deadline_ns", "3600 s", "600 s"});
  a_->timeout_ns = 1'000'000'000;
}

TEST_F(BadRequest, ANumberThatIsInFlightAlready) {
  PutRequest waits;
  waits.fence = {1, 0, 5};
  const uint64_t first = a_->put(waits, {9}, a_->layout, {0});
  ASSERT_TRUE(node->settle());
  Encoded record;
  encode(CancelRequest{1}, record);
  a_->send_record(RecordType::kCancel, record, first);
  expect(first, Code::kInvalid, {"request " + std::to_string(first), "in flight already"});
  // Its first use would be answered under the same number: that answer is never looked for.
  a_->die();
  a_ = engine();
}

TEST_F(BadRequest, ATypeThatIsNotKnown) {
  const std::vector<std::byte> junk(64);
  expect(a_->send_record(static_cast<RecordType>(99), junk), Code::kInvalid,
         {"type 99", "newer than the daemon"});
}

TEST_F(BadRequest, BytesThatAreNoRecord) {
  for (const RecordType type : {RecordType::kAttach, RecordType::kPut, RecordType::kGet,
                                RecordType::kLookup, RecordType::kClear, RecordType::kWhy}) {
    const std::vector<std::byte> junk(200, std::byte{0xee});
    expect(a_->send_record(type, junk), Code::kInvalid, {"size is 200", "FlatBuffer"});
  }
}

TEST_F(BadRequest, ASessionOfAnOlderGeneration) {
  auto other = engine();
  ASSERT_EQ(other->wait(other->send(RecordType::kClear, ClearRequest{other->space, {}})).status(),
            Code::kOk);
  const std::vector<std::string> words = {"generation 2", "attached at 1", "attach again"};
  expect(a_->put({}, {1}, a_->layout, {0}), Code::kStaleNamespace, words);
  expect(a_->get({}, {1}, a_->layout, {1}), Code::kStaleNamespace, words);
  expect(a_->lookup({}, {1}), Code::kStaleNamespace, words);
  for (Engine* e : {a_.get(), bystander_.get()})
    e->space = e->wait(e->attach(fields_of(kPage))).head.handle;
}

TEST_F(BadRequest, MoreAttachesThanASessionMayHave) {
  Answer answer;
  for (int i = 0; i < 5000 && answer.status() == Code::kOk; ++i)
    answer = a_->wait(a_->attach(fields_of(kPage)));
  EXPECT_EQ(answer.status(), Code::kOverQuota);
  EXPECT_NE(answer.text.find("use the handles"), std::string::npos) << answer.text;
}

}  // namespace
}  // namespace kvsidecar::testing
