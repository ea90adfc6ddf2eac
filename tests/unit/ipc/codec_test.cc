// SPDX-License-Identifier: Apache-2.0
// Goal: what one side encodes, the other decodes to the same, for every record type.
// Method: one full and one bare request of each type, there and back.
#include "ipc/codec.h"

#include <algorithm>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

template <typename Request>
Encoded encoded(const Request& request) {
  Encoded record;
  encode(request, record);
  return record;
}

template <typename T>
void expect_ok(const Result<T>& result) {
  ASSERT_TRUE(result.ok()) << result.status().text();
}

bool same(const auto& left, const auto& right) {
  return left.size_bytes() == right.size_bytes() &&
         std::memcmp(left.data(), right.data(), left.size_bytes()) == 0;
}

TEST(Codec, AttachSurvives) {
  AttachRequest request{
      as_bytes("identity"), as_bytes("0123456789abcdef"), 8, 3, {1, 2, 3, 0}, 100, true};
  Encoded record = encoded(request);
  const auto back = decode_attach(record);
  expect_ok(back);
  EXPECT_EQ(as_text(back->identity), "identity");
  EXPECT_EQ(as_text(back->group), "0123456789abcdef");
  EXPECT_EQ(back->group_size, 8);
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->coordinate, request.coordinate);
  EXPECT_EQ(back->description_bytes_max, 100u);
  EXPECT_TRUE(back->detach);
  request.rank = kCoordinatorRank;
  EXPECT_TRUE(decode_attach(record = encoded(request)).ok());
}

TEST(Codec, AttachWithoutAGroupSurvives) {
  AttachRequest request;
  request.identity = as_bytes("i");
  const Encoded record = encoded(request);
  const auto back = decode_attach(record);
  expect_ok(back);
  EXPECT_TRUE(back->group.empty());
  EXPECT_EQ(back->coordinate, Coordinate{});
}

TEST(Codec, RegionsAndLayoutsSurvive) {
  const Encoded region = encoded(RegisterRegionRequest{11, 0, 1 << 20, 4096, 64, 0xfeed});
  const auto r = decode_register_region(region);
  expect_ok(r);
  EXPECT_EQ(r->token, 11u);
  EXPECT_EQ(r->bytes, 1u << 20);
  EXPECT_EQ(r->offset, 4096u);
  EXPECT_EQ(r->echo_offset, 64u);
  EXPECT_EQ(r->nonce, 0xfeedu);
  const LayoutRun runs[] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  const Encoded layout = encoded(RegisterLayoutRequest{1000, runs});
  const auto l = decode_register_layout(layout);
  expect_ok(l);
  EXPECT_EQ(l->blocks, 1000u);
  EXPECT_TRUE(same(l->runs, std::span<const LayoutRun>(runs)));
  const Encoded unregister = encoded(UnregisterRequest{77});
  EXPECT_EQ(decode_unregister(unregister)->handle, 77u);
}

TEST(Codec, LookupSurvives) {
  const PoolPolicy pools[] = {{5, HitPolicy::kAllPages, 0}, {6, HitPolicy::kTrailingPages, 4}};
  const LookupRequest request{{as_bytes("aabbcc"), 2}, 10, 100, pools, 9, 2000, true};
  const Encoded record = encoded(request);
  const auto back = decode_lookup(record);
  expect_ok(back);
  EXPECT_EQ(back->keys.count(), 3u);
  EXPECT_EQ(as_text(back->keys[1]), "bb");
  EXPECT_EQ(back->offset, 10u);
  EXPECT_EQ(back->total, 100u);
  EXPECT_TRUE(same(back->pools, std::span<const PoolPolicy>(pools)));
  EXPECT_EQ(back->ticket, 9u);
  EXPECT_EQ(back->lease_ms, 2000u);
  EXPECT_TRUE(back->prefetch);
}

TEST(Codec, PutOfBlocksSurvives) {
  const Block blocks[] = {{1, 2, 3}, {4, 5, 6}};
  const uint32_t ends[] = {3, 3};
  PutRequest request;
  request.namespace_handle = 42;
  request.keys = {as_bytes("k1k2"), 2};
  request.items.blocks = blocks;
  request.has_coordinate = true;
  request.coordinate = {3, 2, 1, 0};
  request.fence = {7, 0, 1ull << 40};
  request.durable = true;
  request.position = 5;
  request.prompt_pages = 9;
  request.descriptions = as_bytes("abc");
  request.description_ends = ends;
  const Encoded record = encoded(request);
  const auto back = decode_put(record);
  expect_ok(back);
  EXPECT_EQ(back->namespace_handle, 42u);
  EXPECT_TRUE(same(back->items.blocks, std::span<const Block>(blocks)));
  EXPECT_EQ(back->items.count(), 2u);
  EXPECT_TRUE(back->has_coordinate);
  EXPECT_EQ(back->coordinate, request.coordinate);
  EXPECT_EQ(back->fence.index, 7u);
  EXPECT_EQ(back->fence.value, 1ull << 40);
  EXPECT_TRUE(back->durable);
  EXPECT_EQ(back->position, 5u);
  EXPECT_EQ(back->prompt_pages, 9u);
  EXPECT_EQ(as_text(back->descriptions), "abc");
  EXPECT_TRUE(same(back->description_ends, std::span<const uint32_t>(ends)));
}

TEST(Codec, GetOfRunsSurvives) {
  const RunItem items[] = {{0, 1, 8, 0}, {1, 2, 9, 0}};
  const kvsidecar::Run runs[] = {{1, 0, 10}, {1, 100, 20}, {2, 0, 30}};
  GetRequest request;
  request.namespace_handle = 1;
  request.keys = {as_bytes("k1k2"), 2};
  request.items.run_items = items;
  request.items.runs = runs;
  request.lease = 88;
  request.progress = 3;
  const Encoded record = encoded(request);
  const auto back = decode_get(record);
  expect_ok(back);
  EXPECT_TRUE(same(back->items.run_items, std::span<const RunItem>(items)));
  EXPECT_TRUE(same(back->items.runs, std::span<const kvsidecar::Run>(runs)));
  EXPECT_EQ(back->lease, 88u);
  EXPECT_EQ(back->progress, 3u);
  EXPECT_FALSE(back->has_coordinate);
  EXPECT_EQ(back->fence.index, kNoIndex);
}

TEST(Codec, AnAbsentProgressWordIsNone) {
  const Block blocks[] = {{1, 2, 3}};
  GetRequest request;
  request.keys = {as_bytes("k"), 1};
  request.items.blocks = blocks;
  const Encoded record = encoded(request);
  EXPECT_EQ(decode_get(record)->progress, kNoIndex);
}

TEST(Codec, TheSmallRequestsSurvive) {
  Encoded record = encoded(ReleaseRequest{5});
  EXPECT_EQ(decode_release(record)->lease, 5u);
  record = encoded(CancelRequest{6});
  EXPECT_EQ(decode_cancel(record)->request, 6u);
  record = encoded(DeleteRequest{7, {as_bytes("ab"), 1}});
  EXPECT_EQ(decode_delete(record)->namespace_handle, 7u);
  EXPECT_EQ(decode_delete(record)->keys.count(), 2u);
  record = encoded(ClearRequest{8, {}});
  EXPECT_EQ(decode_clear(record)->namespace_handle, 8u);
  record = encoded(ClearRequest{0, as_bytes("0123456789abcdef")});
  EXPECT_EQ(as_text(decode_clear(record)->namespace_id), "0123456789abcdef");
  record = encoded(StatRequest{StatWhat::kDrain, 99});
  EXPECT_EQ(decode_stat(record)->what, StatWhat::kDrain);
  EXPECT_EQ(decode_stat(record)->offset, 99u);
  record = encoded(WhyRequest{{}, as_bytes("key"), 4});
  EXPECT_EQ(as_text(decode_why(record)->key), "key");
  EXPECT_EQ(decode_why(record)->offset, 4u);
}

TEST(Codec, TheLargestRecordFitsARequest) {
  const std::vector<Block> blocks(1600, Block{1, 2, 3});
  const std::string keys(size_t{1600} * 16, 'k');
  PutRequest request;
  request.keys = {as_bytes(keys), 16};
  request.items.blocks = blocks;
  const Encoded record = encoded(request);
  EXPECT_LE(record.size(), kRequestBytesMax);
  EXPECT_EQ(decode_put(record)->items.count(), 1600u);
}

TEST(Codec, EncodingReusesTheCallersBuffer) {
  Encoded record = encoded(WhyRequest{{}, as_bytes("a longer record"), 1});
  const std::byte* before = record.data();
  encode(StatRequest{StatWhat::kSessions, 1}, record);
  EXPECT_EQ(record.data(), before);
  EXPECT_EQ(decode_stat(record)->what, StatWhat::kSessions);
}

}  // namespace
}  // namespace kvsidecar
