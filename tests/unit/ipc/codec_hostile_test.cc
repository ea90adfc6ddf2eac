// SPDX-License-Identifier: Apache-2.0
// Goal: no bytes of a peer pass decode() unless every number in them holds, and each refusal names
// its field.
// Method: good requests with one thing wrong; records built byte by byte; every prefix and many
// seeded mutations of every type, in buffers of the exact size so that a sanitizer sees overreads.
#include <functional>
#include <random>

#include "ipc/codec.h"
#include "ipc/identity.h"
#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

template <typename Request>
Encoded encoded(const Request& request) {
  Encoded record;
  encode(request, record);
  return record;
}

// Encodes what `spoil` made of a good request and expects a refusal with the word.
template <typename Request, typename Decode>
void expect_spoiled(Request request, Decode decode, const std::string& word,
                    const std::function<void(Request&)>& spoil) {
  ASSERT_TRUE(decode(encoded(request)).ok());
  spoil(request);
  expect_refused(decode(encoded(request)).status(), Code::kInvalid, word);
}

const Block kBlocks[] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
const RunItem kRunItems[] = {{0, 1, 8, 0}, {1, 2, 9, 0}};
const Run kRuns[] = {{1, 0, 10}, {1, 100, 20}, {2, 0, 30}};
const uint32_t kEnds[] = {2, 2, 6};
const PoolPolicy kPools[] = {{5, HitPolicy::kAllPages, 0}, {6, HitPolicy::kTrailingPages, 4}};
const LayoutRun kLayoutRuns[] = {{1, 0, 4096, 4096}};

PutRequest good_put() {
  PutRequest put;
  put.keys = {as_bytes("aaabbbccc"), 3};
  put.items.blocks = kBlocks;
  put.descriptions = as_bytes("abcdef");
  put.description_ends = kEnds;
  return put;
}

GetRequest good_get() {
  GetRequest get;
  get.keys = {as_bytes("aaabbb"), 3};
  get.items.run_items = kRunItems;
  get.items.runs = kRuns;
  return get;
}

LookupRequest good_lookup() { return {{as_bytes("aaabbb"), 3}, 0, 2, kPools, 0, 0, false}; }

void put_refused(const std::string& word, const std::function<void(PutRequest&)>& spoil) {
  expect_spoiled<PutRequest>(good_put(), decode_put, word, spoil);
}
void get_refused(const std::string& word, const std::function<void(GetRequest&)>& spoil) {
  expect_spoiled<GetRequest>(good_get(), decode_get, word, spoil);
}
void lookup_refused(const std::string& word, const std::function<void(LookupRequest&)>& spoil) {
  expect_spoiled<LookupRequest>(good_lookup(), decode_lookup, word, spoil);
}

TEST(HostileKeys, TheirLengthAndCountAreChecked) {
  put_refused("key_bytes is 0", [](PutRequest& r) { r.keys.key_bytes = 0; });
  put_refused("key_bytes is 65", [](PutRequest& r) { r.keys.key_bytes = 65; });
  put_refused("multiple of key_bytes", [](PutRequest& r) { r.keys.key_bytes = 2; });
  put_refused("keys (items) is 0", [](PutRequest& r) { r.keys.bytes = {}; });
  put_refused("each of the 9 keys", [](PutRequest& r) { r.keys.key_bytes = 1; });
  const std::string many(kItemsMax + 1, 'k');
  expect_refused(decode_delete(encoded(DeleteRequest{1, {as_bytes(many), 1}})).status(),
                 Code::kInvalid, "keys (items) is 2049");
  const std::string most(kItemsMax, 'k');
  EXPECT_TRUE(decode_delete(encoded(DeleteRequest{1, {as_bytes(most), 1}})).ok());
}

TEST(HostileItems, AreBlocksOrRunsAndOnePerKey) {
  put_refused("items is 0", [](PutRequest& r) { r.items = {}; });
  put_refused("items is 2", [](PutRequest& r) { r.items.blocks = std::span(kBlocks).first(2); });
  put_refused("not both", [](PutRequest& r) { r.items.run_items = kRunItems; });
  put_refused("not both", [](PutRequest& r) { r.items.runs = kRuns; });
  get_refused("items is 1",
              [](GetRequest& r) { r.items.run_items = std::span(kRunItems).first(1); });
}

TEST(HostileRuns, StayWithinTheRecord) {
  static RunItem items[2];
  const auto with = [](RunItem second) {
    return [second](GetRequest& r) {
      items[0] = kRunItems[0];
      items[1] = second;
      r.items.run_items = items;
    };
  };
  get_refused("run_count is 0", with({1, 0, 9, 0}));
  get_refused("run_count is 65", with({0, 65, 9, 0}));
  get_refused("first_run is 2", with({2, 2, 9, 0}));
  get_refused("first_run is 4294967295", with({UINT32_MAX, 1, 9, 0}));
  get_refused("reserved is 1", with({1, 2, 9, 1}));
  static kvsidecar::Run runs[3];
  const auto with_run = [](kvsidecar::Run third) {
    return [third](GetRequest& r) {
      std::copy(std::begin(kRuns), std::end(kRuns), runs);
      runs[2] = third;
      r.items.runs = runs;
    };
  };
  get_refused("runs.length is 0", with_run({1, 0, 0}));
  get_refused("runs.offset is 18446744073709551615", with_run({1, UINT64_MAX, 1}));
  get_refused("runs.offset is 2", with_run({1, 2, UINT64_MAX - 1}));
}

TEST(HostileDescriptions, AscendAndEndWithTheirBytes) {
  static std::vector<uint32_t> ends;
  static std::string bytes;
  const auto with = [](std::vector<uint32_t> values) {
    return [values](PutRequest& r) {
      ends = values;
      r.description_ends = ends;
    };
  };
  put_refused("description_ends is 0;", with({}));
  put_refused("description_ends is 2;", with({2, 6}));
  put_refused("must not descend", with({3, 2, 6}));
  put_refused("description_ends is 5;", with({1, 2, 5}));
  put_refused("description_ends is 7;", with({1, 2, 7}));
  put_refused("description (bytes) is 16385", [](PutRequest& r) {
    bytes.assign(kDescriptionBytesMax + 1, 'd');
    ends = {0, 0, kDescriptionBytesMax + 1};
    r.description_ends = ends;
    r.descriptions = as_bytes(bytes);
  });
  put_refused("description (bytes) is 4294967295", with({0, UINT32_MAX, 6}));
}

TEST(HostileFields, ThatAreReservedMustBeZero) {
  put_refused("coordinate.reserved is 4", [](PutRequest& r) {
    r.has_coordinate = true;
    r.coordinate.reserved = 4;
  });
  put_refused("fence.reserved is 4", [](PutRequest& r) { r.fence = {1, 4, 2}; });
}

TEST(HostileLookup, IsCheckedFieldByField) {
  lookup_refused("total is 32769", [](LookupRequest& r) { r.total = kLookupKeysMax + 1; });
  lookup_refused("offset is 1", [](LookupRequest& r) { r.offset = 1; });
  lookup_refused("offset is 4294967295", [](LookupRequest& r) { r.offset = UINT32_MAX; });
  lookup_refused("offset is 0", [](LookupRequest& r) { r.total = 1; });
  lookup_refused("pools is 0", [](LookupRequest& r) { r.pools = {}; });
  static PoolPolicy pools[kPoolsMax + 1];
  lookup_refused("pools is 17", [](LookupRequest& r) { r.pools = pools; });
  lookup_refused("keys times pools are at most 65536", [](LookupRequest& r) {
    r.total = kLookupFindsMax / 16 + 1;
    r.pools = std::span<const PoolPolicy>(pools).first(16);
  });
  lookup_refused("policy is 2", [](LookupRequest& r) {
    pools[0].policy = static_cast<HitPolicy>(2);
    r.pools = std::span<const PoolPolicy>(pools).first(1);
  });
  lookup_refused("pages is 0", [](LookupRequest& r) {
    pools[0] = {1, HitPolicy::kTrailingPages, 0};
    r.pools = std::span<const PoolPolicy>(pools).first(1);
  });
}

TEST(HostileAttach, IsCheckedFieldByField) {
  static const std::string kLong(kIdentityBytesMax + 1, 'i');
  const AttachRequest good{as_bytes("id"), as_bytes("0123456789abcdef"), 2, 1, {}, 0, false};
  const auto refused = [&](const char* word, const std::function<void(AttachRequest&)>& spoil) {
    expect_spoiled<AttachRequest>(good, decode_attach, word, spoil);
  };
  refused("identity (bytes) is 0", [](AttachRequest& r) { r.identity = {}; });
  refused("identity (bytes) is 16385", [](AttachRequest& r) { r.identity = as_bytes(kLong); });
  refused("group (bytes) is 15", [](AttachRequest& r) { r.group = r.group.first(15); });
  refused("group_size is 0", [](AttachRequest& r) { r.group_size = 0; });
  refused("group_size is 2", [](AttachRequest& r) { r.group = {}; });
  refused("rank is 2", [](AttachRequest& r) { r.rank = 2; });
  refused("description_bytes_max is 16385",
          [](AttachRequest& r) { r.description_bytes_max = kDescriptionBytesMax + 1; });
  refused("coordinate.reserved is 1", [](AttachRequest& r) { r.coordinate.reserved = 1; });
}

TEST(HostileRegion, IsCheckedFieldByField) {
  const RegisterRegionRequest good{1, 0, 4096, 0, 0, 5};
  const auto refused = [&](const char* word,
                           const std::function<void(RegisterRegionRequest&)>& spoil) {
    expect_spoiled<RegisterRegionRequest>(good, decode_register_region, word, spoil);
  };
  refused("kind is 1", [](RegisterRegionRequest& r) { r.kind = 1; });
  refused("bytes is 7", [](RegisterRegionRequest& r) { r.bytes = 7; });
  refused("offset is 18446744073709551615",
          [](RegisterRegionRequest& r) { r.offset = UINT64_MAX; });
  refused("offset is 4096", [](RegisterRegionRequest& r) { r.offset = 4096, r.bytes = INT64_MAX; });
  refused("echo_offset is 4096", [](RegisterRegionRequest& r) { r.echo_offset = 4096; });
  refused("echo_offset is 4", [](RegisterRegionRequest& r) { r.echo_offset = 4; });
}

// O11-05
TEST(HostileLayout, IsCheckedFieldByField) {
  static LayoutRun run;
  const RegisterLayoutRequest good{16, kLayoutRuns};
  const auto refused = [&](const char* word, LayoutRun changed) {
    expect_spoiled<RegisterLayoutRequest>(good, decode_register_layout, word,
                                          [&](RegisterLayoutRequest& r) {
                                            run = changed;
                                            r.runs = std::span(&run, 1);
                                          });
  };
  refused("run_length is 0", {1, 0, 4096, 0});
  refused("block_stride is 1229782938247303442", {1, 0, UINT64_MAX / 15 + 1, 1});
  refused("block_stride is 1;", {1, UINT64_MAX - 14, 1, 1});
  refused("block_stride is 0;", {1, UINT64_MAX, 0, 1});
  expect_refused(decode_register_layout(encoded(RegisterLayoutRequest{0, kLayoutRuns})).status(),
                 Code::kInvalid, "blocks is 0");
  expect_refused(decode_register_layout(encoded(RegisterLayoutRequest{1, {}})).status(),
                 Code::kInvalid, "runs is 0");
}

TEST(HostileSmallRequests, AreChecked) {
  expect_refused(decode_clear(encoded(ClearRequest{1, as_bytes("short")})).status(), Code::kInvalid,
                 "namespace_id (bytes) is 5");
  expect_refused(decode_clear(encoded(ClearRequest{0, {}})).status(), Code::kInvalid,
                 "namespace_handle is 0");
  expect_refused(decode_clear(encoded(ClearRequest{1, as_bytes("0123456789abcdef")})).status(),
                 Code::kInvalid, "not by both");
  expect_refused(decode_stat(encoded(StatRequest{static_cast<StatWhat>(4), 0})).status(),
                 Code::kInvalid, "what is 4");
  expect_refused(decode_why(encoded(WhyRequest{{}, {}, 0})).status(), Code::kInvalid,
                 "key (bytes) is 0");
  const std::string key(65, 'k');
  expect_refused(decode_why(encoded(WhyRequest{{}, as_bytes(key), 0})).status(), Code::kInvalid,
                 "key (bytes) is 65");
  expect_refused(decode_why(encoded(WhyRequest{as_bytes("x"), as_bytes("k"), 0})).status(),
                 Code::kInvalid, "namespace_id");
}

TEST(HostileRecord, LargerThanARequestIsRefusedUnread) {
  Encoded record(kRequestBytesMax + 1);
  expect_refused(decode_put(record).status(), Code::kInvalid, "size is 65537");
  expect_refused(decode_put({}).status(), Code::kInvalid, "size is 0");
}

TEST(HostileRecord, ThatClaimsMoreItemsThanItHoldsIsRefused) {
  const Encoded good = encoded(good_put());
  for (const uint32_t claimed : {10u, 100'000u, 4'000'000'000u}) {
    // The length of the key vector stands right before its bytes.
    const auto keys = std::search(good.begin(), good.end(), good_put().keys.bytes.begin(),
                                  good_put().keys.bytes.end());
    ASSERT_NE(keys, good.end());
    Encoded record = good;
    std::memcpy(record.data() + (keys - good.begin()) - 4, &claimed, 4);
    EXPECT_EQ(decode_put(record).status().code(), Code::kInvalid) << claimed;
    const auto block =
        std::search(good.begin(), good.end(), reinterpret_cast<const std::byte*>(kBlocks),
                    reinterpret_cast<const std::byte*>(kBlocks) + sizeof kBlocks);
    ASSERT_NE(block, good.end());
    record = good;
    std::memcpy(record.data() + (block - good.begin()) - 4, &claimed, 4);
    EXPECT_EQ(decode_put(record).status().code(), Code::kInvalid) << claimed;
  }
}

// A register-layout record by hand: root offset, vtable, table, and the runs' vector at
// `vector_at`.
std::vector<std::byte> layout_record(uint32_t vector_at) {
  std::vector<std::byte> record(vector_at + 4 + sizeof(LayoutRun) + 4);
  const auto set = [&](size_t at, auto value) { std::memcpy(&record[at], &value, sizeof value); };
  set(0, uint32_t{12});  // the table
  set(4, uint16_t{8});   // vtable: its bytes, the table's bytes, fields at 4 and 8
  set(6, uint16_t{12});
  set(8, uint16_t{4});
  set(10, uint16_t{8});
  set(12, int32_t{8});   // the vtable lies 8 bytes back
  set(16, uint32_t{1});  // blocks
  set(20, uint32_t{vector_at - 20});
  set(vector_at, uint32_t{1});
  set(vector_at + 4, kLayoutRuns[0]);
  return record;
}

TEST(HostileRecord, WithMisalignedStructsIsRefused) {
  const auto good = decode_register_layout(layout_record(28));
  ASSERT_TRUE(good.ok()) << good.status().text();
  expect_refused(decode_register_layout(layout_record(24)).status(), Code::kInvalid, "aligned");
}

// Decodes the bytes as every type and touches all that an accepted request points to.
uint64_t decode_all(const Encoded& record) {
  uint64_t sum = 0;
  const auto bytes = [&](Bytes b) {
    for (const std::byte x : b) sum += static_cast<uint64_t>(x);
  };
  const auto structs = [&](auto span) { bytes(std::as_bytes(span)); };
  const auto transfer = [&](const auto& r) {
    if (!r) return;
    bytes(r->keys.bytes);
    structs(r->items.blocks);
    structs(r->items.run_items);
    structs(r->items.runs);
    for (const RunItem& item : r->items.run_items) {
      structs(r->items.runs.subspan(item.first_run, item.run_count));
    }
    KV_CHECK(r->keys.count() == r->items.count() && r->keys.count() <= kItemsMax);
  };
  if (const auto r = decode_attach(record)) bytes(r->identity), bytes(r->group);
  if (const auto r = decode_register_layout(record)) structs(r->runs);
  if (const auto r = decode_lookup(record)) bytes(r->keys.bytes), structs(r->pools);
  transfer(decode_get(record));
  const auto put = decode_put(record);
  transfer(put);
  if (put) {
    uint32_t start = 0;
    for (const uint32_t end : put->description_ends) {
      bytes(put->descriptions.subspan(start, end - start));
      start = end;
    }
  }
  if (const auto r = decode_delete(record)) bytes(r->keys.bytes);
  if (const auto r = decode_clear(record)) bytes(r->namespace_id);
  if (const auto r = decode_why(record)) bytes(r->key), bytes(r->namespace_id);
  sum += decode_register_region(record).ok() + decode_unregister(record).ok() +
         decode_release(record).ok() + decode_cancel(record).ok() + decode_stat(record).ok();
  return sum;
}

std::vector<Encoded> one_of_each() {
  return {encoded(AttachRequest{as_bytes("id"), as_bytes("0123456789abcdef"), 2, 1, {}, 9, true}),
          encoded(RegisterRegionRequest{1, 0, 4096, 0, 8, 5}),
          encoded(RegisterLayoutRequest{16, kLayoutRuns}),
          encoded(UnregisterRequest{5}),
          encoded(good_lookup()),
          encoded(good_put()),
          encoded(good_get()),
          encoded(ReleaseRequest{6}),
          encoded(CancelRequest{7}),
          encoded(DeleteRequest{8, {as_bytes("ab"), 1}}),
          encoded(ClearRequest{0, as_bytes("0123456789abcdef")}),
          encoded(StatRequest{StatWhat::kSessions, 1}),
          encoded(WhyRequest{as_bytes("0123456789abcdef"), as_bytes("k"), 0})};
}

TEST(HostileRecord, NoPrefixOfARecordIsReadPastItsEnd) {
  for (const Encoded& good : one_of_each()) {
    for (size_t cut = 0; cut < good.size(); ++cut) {
      decode_all(Encoded(good.begin(), good.begin() + static_cast<long>(cut)));
    }
  }
}

// O11-08
TEST(HostileRecord, NoMutationIsReadPastItsEnd) {
  std::mt19937_64 random(20240607);
  const std::vector<uint32_t> interesting = {0,     1,          2,          4,          8,
                                             63,    64,         65,         2048,       65535,
                                             65536, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
  uint64_t accepted = 0;
  for (const Encoded& good : one_of_each()) {
    for (int i = 0; i < 1500; ++i) {
      Encoded record = good;
      for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        const size_t at = random() % record.size();
        if (random() % 2 == 0) {
          record[at] = static_cast<std::byte>(random());
        } else if (at / 4 * 4 + 4 <= record.size()) {
          std::memcpy(&record[at / 4 * 4], &interesting[random() % interesting.size()], 4);
        }
      }
      accepted += decode_all(record) > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 0u);  // mutations of values only: the walk above did see requests
}

}  // namespace
}  // namespace kvsidecar
