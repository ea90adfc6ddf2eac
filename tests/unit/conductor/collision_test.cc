// SPDX-License-Identifier: Apache-2.0
// Goal: two keys with one hash cost a miss, never another key's bytes. (Bug report O1-07.)
// Method: this program is linked with a page hash that is cut to 8 bits (--wrap), so that 1,000
// keys share 256 hashes; everything above it is the daemon's own.
#include "tests/unit/conductor/rig.h"

// The linker's names of page_hash() and of what is called in its place.
#define KV_PAGE_HASH                                   \
  "_ZN9kvsidecar9page_hashERKNS_7Hash128EmSt4span" \
  "IKSt4byteLm18446744073709551615EE"
kvsidecar::Hash128 real_page_hash(const kvsidecar::Hash128&, uint64_t,
                                  kvsidecar::Bytes) __asm__("__real_" KV_PAGE_HASH);
kvsidecar::Hash128 cut_page_hash(const kvsidecar::Hash128&, uint64_t,
                                 kvsidecar::Bytes) __asm__("__wrap_" KV_PAGE_HASH);

kvsidecar::Hash128 cut_page_hash(const kvsidecar::Hash128& space, uint64_t generation,
                                 kvsidecar::Bytes key) {
  const kvsidecar::Hash128 whole = real_page_hash(space, generation, key);
  return {whole.low & 0xff, 0};
}

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kSmall = 4096;

class Collision : public Rig {
 protected:
  Collision() { options.pool_bytes = 4 << 20; }
  static uint64_t hash_of(uint64_t key) {
    const std::vector<std::byte> bytes = key_of(key);
    const NamespaceFields fields = fields_of(kSmall);
    return page_hash(namespace_id(encode_identity(fields).take()), 1, bytes).low;
  }
  // The first key after `key` that has its hash.
  static uint64_t twin_of(uint64_t key) {
    uint64_t twin = key + 1;
    while (hash_of(twin) != hash_of(key)) ++twin;
    return twin;
  }
  // Asks for 1,000 keys; how many came, each with its own bytes.
  int count_exact(Engine& e) {
    int exact = 0;
    for (uint64_t key = 1; key <= 1000; ++key) {
      fill_page(e.block(1), 77'777);
      const Code code = get(e, key);
      if (code == Code::kOk) ++exact;
      EXPECT_TRUE(code == Code::kOk || code == Code::kMiss) << code_name(code);
      EXPECT_TRUE(holds_page(e.block(1), code == Code::kOk ? key : 77'777)) << "key " << key;
    }
    return exact;
  }
};

TEST_F(Collision, AThousandKeysUnder256HashesAreTheirOwnBytesOrAMiss) {
  start();
  {
    auto a = engine(fields_of(kSmall));
    for (uint64_t key = 1; key <= 1000; ++key) EXPECT_TRUE(is_success(put(*a, key)));
    const uint64_t pages = node->conductor().gauges().pages_indexed;
    EXPECT_GT(pages, 200u);
    EXPECT_LE(pages, 256u);
    EXPECT_EQ(static_cast<uint64_t>(count_exact(*a)), pages);
  }
  stop();
  start();  // adopted
  {
    auto a = engine(fields_of(kSmall));
    EXPECT_GT(count_exact(*a), 200);
  }
  stop();
  lose_memory();
  start();  // read from the store
  auto a = engine(fields_of(kSmall));
  EXPECT_GT(count_exact(*a), 200);
}

// One's first part and the other's second are no page.
TEST_F(Collision, PartsOfTwoKeysAreNeverJoined) {
  const NamespaceFields two = fields_of(kSmall, 2);
  AttachRequest second;
  second.coordinate.tp = 1;
  start();
  auto rank0 = engine(two), rank1 = engine(two, second);
  const std::vector<std::byte> id = encode_identity(two).take();
  const auto hash = [&](uint64_t key) {
    return page_hash(namespace_id(id), 1, key_of(key)).low;
  };
  uint64_t twin = 2;
  while (hash(twin) != hash(1)) ++twin;
  fill_page(rank0->block(0), 1, 0);
  fill_page(rank1->block(0), twin, 1);
  EXPECT_EQ(rank0->wait(rank0->put({}, {1}, rank0->layout, {0})).items[0], Code::kOkPart);
  EXPECT_EQ(rank1->wait(rank1->put({}, {twin}, rank1->layout, {0})).items[0], Code::kBusy);
  for (const uint64_t key : {uint64_t{1}, twin}) {
    EXPECT_EQ(get(*rank0, key), Code::kMiss);
    EXPECT_EQ(get(*rank1, key), Code::kMiss);
  }
  fill_page(rank1->block(0), 1, 1);
  EXPECT_EQ(rank1->wait(rank1->put({}, {1}, rank1->layout, {0})).items[0], Code::kOk);
  EXPECT_EQ(get(*rank1, 1), Code::kOk);
  EXPECT_TRUE(holds_page(rank1->block(1), 1, 1));
}

// Two writers at once: the one whose key isn't being taken in is told so.
TEST_F(Collision, AWriterDoesNotFollowTheCopyOfAnotherKey) {
  start();
  auto a = engine(fields_of(kSmall)), b = engine(fields_of(kSmall));
  const uint64_t twin = twin_of(1);
  fill_page(a->block(0), 1);
  fill_page(b->block(0), twin);
  const uint64_t first = a->put({}, {1}, a->layout, {0});
  const uint64_t second = b->put({}, {twin}, b->layout, {0});
  EXPECT_EQ(a->wait(first).items[0], Code::kOk);
  EXPECT_EQ(b->wait(second).items[0], Code::kBusy);
  EXPECT_EQ(get(*b, twin), Code::kMiss);
  EXPECT_EQ(erase(*a, 1), Code::kOk);
  EXPECT_EQ(put(*b, twin), Code::kOk);
  EXPECT_EQ(get(*b, twin), Code::kOk);
  EXPECT_TRUE(holds_page(b->block(1), twin));
}

}  // namespace
}  // namespace kvsidecar::testing
