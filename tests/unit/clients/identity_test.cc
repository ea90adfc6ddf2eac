// SPDX-License-Identifier: Apache-2.0
// Goal: the C ABI's identity helpers say what ipc says. Method: the same fields go through both;
// the canonical bytes and ids must be equal, and each missing field must be named.
#include "ipc/identity.h"

#include "tests/unit/clients/fixture.h"

namespace kvsidecar::testing {
namespace {

std::vector<std::byte> encoded(const kvs_namespace_fields& in, const uint8_t* detach = nullptr) {
  size_t bytes = 0;
  EXPECT_EQ(KVS_OVER_QUOTA, kvs_identity_encode(&in, detach, nullptr, 0, &bytes));
  std::vector<std::byte> out(bytes);
  EXPECT_EQ(KVS_OK, kvs_identity_encode(&in, detach, out.data(), out.size(), &bytes));
  return out;
}

TEST(ClientIdentity, EqualsWhatIpcMakesOfTheSameFields) {
  const kvs_part parts[] = {{{0, 0, 0, 0}, 4096}, {{1, 0, 0, 0}, 8192}};
  const kvs_extra extras[] = {{"fp8_scale", "per_tensor", 10}, {"a", nullptr, 0}};
  kvs_namespace_fields in = fields(parts[0]);
  in.parts = parts;
  in.part_count = 2;
  in.tp_size = 2;
  in.adapter = "lora-7";
  in.tenant_salt = "";
  in.extras = extras;
  in.extra_count = 2;

  NamespaceFields same;
  same.model = "test/model";
  same.revision = "r1";
  same.dtype = "bf16";
  same.quantization = "none";
  same.layout = "blocks";
  same.pool = "kv";
  same.draft_model = "none";
  same.adapter = "lora-7";
  same.tenant_salt = "";
  same.tokens_per_page = 16;
  same.tp_size = 2;
  same.pp_size = same.cp_size = same.slices = 1;
  same.parts = {{{0, 0, 0, 0}, 4096}, {{1, 0, 0, 0}, 8192}};
  same.extra = {{"fp8_scale", "per_tensor"}, {"a", ""}};
  EXPECT_EQ(*encode_identity(same), encoded(in));

  uint8_t id[16];
  const std::vector<std::byte> bytes = encoded(in);
  ASSERT_EQ(KVS_OK, kvs_namespace_id(bytes.data(), bytes.size(), id));
  const Hash128 expected = namespace_id(bytes);
  EXPECT_EQ(0, std::memcmp(id, &expected, 16));

  const uint8_t group[16] = {1, 2, 3};
  std::array<std::byte, 16> detach{};
  std::memcpy(detach.data(), group, 16);
  same.detach = detach;
  EXPECT_EQ(*encode_identity(same), encoded(in, group));
}

TEST(ClientIdentity, EveryMissingFieldIsNamed) {
  const kvs_part part{{0, 0, 0, 0}, 4096};
  const struct {
    const char* name;
    void (*drop)(kvs_namespace_fields&);
  } cases[] = {
      {"model", [](kvs_namespace_fields& f) { f.model = nullptr; }},
      {"revision", [](kvs_namespace_fields& f) { f.revision = nullptr; }},
      {"dtype", [](kvs_namespace_fields& f) { f.dtype = ""; }},
      {"quantization", [](kvs_namespace_fields& f) { f.quantization = nullptr; }},
      {"layout", [](kvs_namespace_fields& f) { f.layout = nullptr; }},
      {"pool", [](kvs_namespace_fields& f) { f.pool = nullptr; }},
      {"draft_model", [](kvs_namespace_fields& f) { f.draft_model = nullptr; }},
      {"tokens_per_page", [](kvs_namespace_fields& f) { f.tokens_per_page = 0; }},
      {"parts", [](kvs_namespace_fields& f) { f.part_count = 0; }},
  };
  for (const auto& one : cases) {
    kvs_namespace_fields in = fields(part);
    one.drop(in);
    uint8_t out[512];
    size_t bytes = 0;
    EXPECT_EQ(KVS_INVALID, kvs_identity_encode(&in, nullptr, out, sizeof out, &bytes)) << one.name;
    EXPECT_NE(nullptr, std::strstr(kvs_last_error(), one.name)) << kvs_last_error();
  }
}

TEST(ClientIdentity, BytesThatAreNoCanonicalFormHaveNoId) {
  uint8_t id[16];
  EXPECT_EQ(KVS_INVALID, kvs_namespace_id("nonsense", 8, id));
}

TEST(ClientAbi, AStructOfAnotherSizeIsTakenWhenTheRestIsZero) {
  struct {
    kvs_namespace_fields known;
    uint64_t later;
  } newer{};
  const kvs_part part{{0, 0, 0, 0}, 4096};
  newer.known = fields(part);
  newer.known.struct_size = sizeof newer;
  uint8_t out[512];
  size_t bytes = 0;
  EXPECT_EQ(KVS_OK, kvs_identity_encode(&newer.known, nullptr, out, sizeof out, &bytes));
  newer.later = 1;
  EXPECT_EQ(KVS_INVALID, kvs_identity_encode(&newer.known, nullptr, out, sizeof out, &bytes));
}

}  // namespace
}  // namespace kvsidecar::testing
