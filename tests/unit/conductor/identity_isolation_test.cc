// SPDX-License-Identifier: Apache-2.0
// Goal: pages are shared by those whose identity is the same and by nobody else, now and after a
// restart. (Bug reports O1-02, O1-03, O1-04, O1-06.)
// Method: two engines that differ in one field of their identity use the same keys.
#include <functional>

#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kKeys = 3;

struct Difference {
  const char* name;
  std::function<void(NamespaceFields&)> make;
};

const Difference kDifferences[] = {
    {"model", [](NamespaceFields& f) { f.model = "test-model-2"; }},
    {"revision", [](NamespaceFields& f) { f.revision = "r2"; }},
    {"dtype", [](NamespaceFields& f) { f.dtype = "fp8_e4m3"; }},
    {"dtype and page bytes",
     [](NamespaceFields& f) {
       f.dtype = "fp8_e4m3";
       f.parts[0].bytes /= 2;
     }},
    {"page bytes", [](NamespaceFields& f) { f.parts[0].bytes *= 2; }},
    {"quantization", [](NamespaceFields& f) { f.quantization = "kv-scale-per-head"; }},
    {"layout", [](NamespaceFields& f) { f.layout = "layer"; }},
    {"tokens_per_page", [](NamespaceFields& f) { f.tokens_per_page = 32; }},
    {"pool", [](NamespaceFields& f) { f.pool = "swa"; }},
    {"tp_size", [](NamespaceFields& f) { f.tp_size = 2; }},
    {"pp_size", [](NamespaceFields& f) { f.pp_size = 2; }},
    {"cp_size", [](NamespaceFields& f) { f.cp_size = 2; }},
    {"slices", [](NamespaceFields& f) { f.slices = 2; }},
    {"slice",
     [](NamespaceFields& f) {
       f.slices = 2;
       f.slice = 1;
     }},
    {"draft_model", [](NamespaceFields& f) { f.draft_model = "eagle"; }},
    {"adapter", [](NamespaceFields& f) { f.adapter = "sha256:11"; }},
    {"an empty adapter", [](NamespaceFields& f) { f.adapter = ""; }},
    {"tenant_salt", [](NamespaceFields& f) { f.tenant_salt = "acme"; }},
    {"key_scheme", [](NamespaceFields& f) { f.key_scheme = "sha256-cbor"; }},
    {"extra", [](NamespaceFields& f) { f.extra = {{"kv_heads", "8"}}; }},
};

class Isolation : public Rig {
 protected:
  Isolation() { options.pool_bytes = 8 << 20; }

  // Version `version` of the keys' pages.
  void put_all(Engine& e, uint64_t version) {
    for (uint64_t key = 1; key <= kKeys; ++key) {
      fill_page(e.block(0), key, 0, version);
      ASSERT_EQ(e.wait(e.put({}, {key}, e.layout, {0})).items[0], Code::kOk);
    }
  }
  void expect_own(Engine& e, uint64_t version) {
    for (uint64_t key = 1; key <= kKeys; ++key) {
      ASSERT_EQ(get(e, key), Code::kOk);
      EXPECT_TRUE(holds_page(e.block(1), key, 0, version)) << "key " << key;
    }
  }
  void expect_none(Engine& e) {
    fill_page(e.block(1), 999);
    for (uint64_t key = 1; key <= kKeys; ++key) {
      EXPECT_EQ(place(e, key), Place::kMiss);
      EXPECT_EQ(get(e, key), Code::kMiss);
    }
    EXPECT_TRUE(holds_page(e.block(1), 999));
  }
  // None of an identity's pages is a hit under another that differs in one field.
  void expect_none_elsewhere(const NamespaceFields& identity) {
    for (const Difference& difference : kDifferences) {
      SCOPED_TRACE(difference.name);
      NamespaceFields fields = identity;
      difference.make(fields);
      auto other = engine(fields);
      expect_none(*other);
    }
  }
};

TEST_F(Isolation, OneFieldThatDiffersIsNeverAHitNowOrAfterARestart) {
  start();
  const NamespaceFields plain = fields_of(kPage);
  {
    auto first = engine(plain);
    put_all(*first, 0);
    expect_none_elsewhere(plain);
    expect_own(*first, 0);
  }
  stop();
  lose_memory();  // only the store is left
  start();
  expect_none_elsewhere(plain);
  auto first = engine(plain);
  expect_own(*first, 0);
}

TEST_F(Isolation, TwoCheckpointsUnderOneNameKeepTheirOwnPages) {
  start();
  NamespaceFields tuned = fields_of(kPage);
  tuned.revision = "r1-tuned";
  auto a = engine(), b = engine(tuned);
  put_all(*a, 1);
  put_all(*b, 2);
  expect_own(*a, 1);
  expect_own(*b, 2);
}

TEST_F(Isolation, ANameWithoutARevisionIsNoIdentity) {
  NamespaceFields nameless = fields_of(kPage);
  nameless.revision = "";
  const Status local = encode_identity(nameless).status();
  EXPECT_EQ(local.code(), Code::kInvalid);
  EXPECT_NE(local.text().find("revision"), std::string::npos) << local.text();
  // And by a client that made the bytes itself: the revision's entry is there and empty.
  start();
  auto a = engine();
  std::vector<std::byte> encoded = encode_identity(fields_of(kPage)).take();
  const uint8_t entry[] = {3, 0, 2, 0, 0, 0, 'r', '1'};
  const auto* bytes = reinterpret_cast<const std::byte*>(entry);
  const auto at = std::search(encoded.begin(), encoded.end(), bytes, bytes + sizeof entry);
  ASSERT_NE(at, encoded.end());
  at[2] = std::byte{0};
  encoded.erase(at + 6, at + 8);
  AttachRequest attach;
  attach.identity = encoded;
  const Answer answer = a->wait(a->send(RecordType::kAttach, attach));
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("revision"), std::string::npos) << answer.text;
}

// Stage 0 and stage 1 hold other layers under the same keys.
TEST_F(Isolation, StagesOfAPipelineKeepTheirOwnBytesAlsoAfterARestart) {
  const auto stage = [](uint16_t number) {
    NamespaceFields fields = fields_of(kPage);
    fields.pp_size = fields.slices = 2;
    fields.slice = number;
    fields.parts[0].coordinate.pp = number;
    return fields;
  };
  AttachRequest second;
  second.coordinate.pp = 1;
  start();
  {
    auto stage0 = engine(stage(0)), stage1 = engine(stage(1), second);
    std::vector<uint64_t> requests;
    for (uint64_t key = 1; key <= kKeys; ++key) {  // both at once
      const auto block = static_cast<uint32_t>(key);
      fill_page(stage0->block(block), key, 0, 0);
      fill_page(stage1->block(block), key, 0, 1);
      requests.push_back(stage0->put({}, {key}, stage0->layout, {block}));
      EXPECT_EQ(requests.back(), stage1->put({}, {key}, stage1->layout, {block}));
    }
    for (const uint64_t request : requests) {
      EXPECT_EQ(stage0->wait(request).items[0], Code::kOk);
      EXPECT_EQ(stage1->wait(request).items[0], Code::kOk);
    }
    EXPECT_EQ(node->conductor().gauges().pages_indexed, 2 * kKeys);
    expect_own(*stage0, 0);
    expect_own(*stage1, 1);
  }
  stop();
  lose_memory();
  start();
  auto stage0 = engine(stage(0)), stage1 = engine(stage(1), second);
  expect_own(*stage0, 0);
  expect_own(*stage1, 1);
}

// Adapters are named by their content: the order in which an engine loaded them is nobody's name.
TEST_F(Isolation, AdaptersThatWereLoadedInAnotherOrderAreTheSamePages) {
  const auto adapted = [](const char* content) {
    NamespaceFields fields = fields_of(kPage);
    fields.adapter = content;
    return fields;
  };
  start();
  auto a1 = engine(adapted("sha256:aa")), b1 = engine(adapted("sha256:bb"));
  put_all(*a1, 1);
  put_all(*b1, 2);
  auto b2 = engine(adapted("sha256:bb")), a2 = engine(adapted("sha256:aa"));
  expect_own(*a2, 1);
  expect_own(*b2, 2);
  a2.reset();
  b2.reset();
  a2 = engine(adapted("sha256:aa"));  // the client starts anew
  expect_own(*a2, 1);
}

}  // namespace
}  // namespace kvsidecar::testing
