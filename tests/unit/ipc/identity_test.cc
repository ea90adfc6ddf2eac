// SPDX-License-Identifier: Apache-2.0
// Goal: C++ and Python make the same identity of the same fields, no two identities alias, and
// nothing but the canonical form is taken.
// Method: golden vectors shared with the Python tests (their values were computed by a program of
// its own); two encodings written out by hand; mutations of good encodings.
#include "ipc/identity.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ipc/layout.h"
#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

const Json& vectors() {
  static const Json kDocument = Json::parse(std::ifstream(IDENTITY_VECTORS));
  return kDocument;
}

Coordinate coordinate_of(const Json& j) {
  return {j.at("tp").get<uint16_t>(), j.at("pp").get<uint16_t>(), j.at("cp").get<uint16_t>(), 0};
}

NamespaceFields fields_of(const Json& j) {
  NamespaceFields f;
  const std::pair<const char*, std::string*> texts[] = {{"model", &f.model},
                                                        {"revision", &f.revision},
                                                        {"dtype", &f.dtype},
                                                        {"layout", &f.layout},
                                                        {"pool", &f.pool},
                                                        {"quantization", &f.quantization},
                                                        {"draft_model", &f.draft_model}};
  for (const auto& [name, text] : texts) *text = j.value(name, "");
  const std::pair<const char*, std::optional<std::string>*> optional[] = {
      {"adapter", &f.adapter}, {"tenant_salt", &f.tenant_salt}, {"key_scheme", &f.key_scheme}};
  for (const auto& [name, text] : optional) {
    if (j.contains(name)) *text = j.at(name).get<std::string>();
  }
  f.tokens_per_page = j.at("tokens_per_page");
  f.tp_size = j.at("tp_size");
  f.pp_size = j.at("pp_size");
  f.cp_size = j.at("cp_size");
  f.slice = j.at("slice");
  f.slices = j.at("slices");
  for (const Json& part : j.at("parts")) f.parts.push_back({coordinate_of(part), part.at("bytes")});
  if (j.contains("detach")) {
    const auto bytes = from_hex(j.at("detach").get<std::string>());
    f.detach.emplace();
    std::copy(bytes.begin(), bytes.end(), f.detach->begin());
  }
  for (const Json& extra : j.value("extra", Json::array())) {
    f.extra.emplace_back(extra.at(0), extra.at(1));
  }
  return f;
}

NamespaceFields smallest() { return fields_of(vectors().at("vectors").at(0).at("fields")); }

std::vector<std::byte> encoded(const NamespaceFields& fields) {
  auto result = encode_identity(fields);
  KV_CHECK(result.ok());
  return result.take();
}

// O1-08
TEST(Identity, EncodesAndHashesTheGoldenVectors) {
  for (const Json& v : vectors().at("vectors")) {
    SCOPED_TRACE(v.at("name").get<std::string>());
    const NamespaceFields fields = fields_of(v.at("fields"));
    const auto bytes = encode_identity(fields);
    ASSERT_TRUE(bytes.ok()) << bytes.status().text();
    EXPECT_EQ(hex(*bytes), v.at("encoded").get<std::string>());
    const Hash128 id = namespace_id(*bytes);
    EXPECT_EQ(to_hex(id), v.at("namespace_id").get<std::string>());
    for (const Json& page : v.at("pages")) {
      const auto key = from_hex(page.at("key").get<std::string>());
      const Hash128 hash = page_hash(id, page.at("generation"), key);
      EXPECT_EQ(to_hex(hash), page.at("page_hash").get<std::string>());
      for (const Json& part : page.at("parts")) {
        EXPECT_EQ(part_seed(hash, coordinate_of(part)),
                  std::stoull(part.at("seed").get<std::string>(), nullptr, 16));
      }
    }
  }
}

TEST(Identity, DecodesTheGoldenVectorsToFieldsThatEncodeTheSame) {
  for (const Json& v : vectors().at("vectors")) {
    SCOPED_TRACE(v.at("name").get<std::string>());
    const auto bytes = from_hex(v.at("encoded").get<std::string>());
    const auto fields = decode_identity(bytes);
    ASSERT_TRUE(fields.ok()) << fields.status().text();
    EXPECT_EQ(encoded(*fields), bytes);
    const NamespaceFields wanted = fields_of(v.at("fields"));
    EXPECT_EQ(fields->adapter, wanted.adapter);
    EXPECT_EQ(fields->tenant_salt, wanted.tenant_salt);
    EXPECT_EQ(fields->model, wanted.model);
    EXPECT_EQ(fields->parts.size(), wanted.parts.size());
    EXPECT_EQ(fields->detach, wanted.detach);
  }
}

TEST(Identity, NoTwoVectorsAlias) {
  std::map<std::string, std::string> seen;
  for (const Json& v : vectors().at("vectors")) {
    const auto [at, fresh] = seen.emplace(v.at("namespace_id"), v.at("name"));
    EXPECT_TRUE(fresh) << v.at("name") << " aliases " << at->second;
  }
}

// O1-05
TEST(Identity, AdapterAndSaltNeverAlias) {
  std::vector<std::optional<std::string>> values = {std::nullopt, "", "a", "ab", "b", "a|b", "a/b"};
  std::set<Hash128> ids;
  for (const auto& adapter : values) {
    for (const auto& salt : values) {
      NamespaceFields fields = smallest();
      fields.adapter = adapter;
      fields.tenant_salt = salt;
      ids.insert(namespace_id(encoded(fields)));
    }
  }
  EXPECT_EQ(ids.size(), values.size() * values.size());
}

TEST(Identity, TheGoldenRefusalsNameTheirField) {
  for (const Json& v : vectors().at("refused")) {
    SCOPED_TRACE(v.at("name").get<std::string>());
    expect_refused(encode_identity(fields_of(v.at("fields"))).status(), Code::kInvalid,
                   v.at("field").get<std::string>());
  }
}

// Written out by hand from the table in identity.h; nothing here comes from a program.
TEST(Identity, TheSmallestEncodingIsTheOneWrittenByHand) {
  const std::string by_hand =
      "0100"
      "04000000"
      "01000000"  // format version 1
      "0200"
      "01000000"
      "6d"  // model "m"
      "0300"
      "01000000"
      "72"  // revision "r"
      "0600"
      "08000000"
      "62666c6f61743136"  // dtype "bfloat16"
      "0700"
      "04000000"
      "6e6f6e65"  // quantization "none"
      "0800"
      "07000000"
      "74656e736f7273"  // layout "tensors"
      "0900"
      "04000000"
      "10000000"  // 16 tokens per page
      "0a00"
      "02000000"
      "6b76"  // pool "kv"
      "0b00"
      "06000000"
      "010001000100"  // tp 1, pp 1, cp 1
      "0c00"
      "04000000"
      "00000100"  // slice 0 of 1
      "0d00"
      "10000000"
      "0000000000000000"
      "0010000000000000"  // one part of 4096 bytes
      "0e00"
      "04000000"
      "6e6f6e65";  // draft model "none"
  EXPECT_EQ(hex(encoded(smallest())), by_hand);
}

TEST(Identity, OptionalFieldsStandWhereTheHandPutsThem) {
  NamespaceFields fields = smallest();
  fields.adapter = "";
  fields.tenant_salt = "\xc3\xbc";
  fields.key_scheme = "k";
  fields.detach.emplace();
  fields.detach->fill(std::byte{0xaa});
  fields.extra = {{"zz", "1"}, {"y", ""}};
  const std::string by_hand =
      "0100"
      "04000000"
      "01000000"
      "0200"
      "01000000"
      "6d"
      "0300"
      "01000000"
      "72"
      "0400"
      "00000000"  // adapter, empty
      "0500"
      "02000000"
      "c3bc"  // salt, u umlaut
      "0600"
      "08000000"
      "62666c6f61743136"
      "0700"
      "04000000"
      "6e6f6e65"
      "0800"
      "07000000"
      "74656e736f7273"
      "0900"
      "04000000"
      "10000000"
      "0a00"
      "02000000"
      "6b76"
      "0b00"
      "06000000"
      "010001000100"
      "0c00"
      "04000000"
      "00000100"
      "0d00"
      "10000000"
      "0000000000000000"
      "0010000000000000"
      "0e00"
      "04000000"
      "6e6f6e65"
      "0f00"
      "01000000"
      "6b"  // key scheme "k"
      "1000"
      "10000000"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "4000"
      "03000000"
      "0100"
      "79"  // extra "y", empty value
      "4000"
      "05000000"
      "0200"
      "7a7a"
      "31";  // extra "zz" = "1"
  EXPECT_EQ(hex(encoded(fields)), by_hand);
}

TEST(Identity, LimitsAreRefusedByName) {
  NamespaceFields parts = smallest();
  parts.parts.clear();
  for (uint16_t i = 0; i <= kPartsMax; ++i) parts.parts.push_back({{i, 0, 0, 0}, 1});
  expect_refused(encode_identity(parts).status(), Code::kInvalid, "parts");
  parts.parts.pop_back();
  EXPECT_TRUE(encode_identity(parts).ok());
  NamespaceFields large = smallest();
  large.extra = {{"x", std::string(kIdentityBytesMax, 'y')}};
  expect_refused(encode_identity(large).status(), Code::kInvalid, "encoding");
  NamespaceFields reserved = smallest();
  reserved.parts[0].coordinate.reserved = 1;
  expect_refused(encode_identity(reserved).status(), Code::kInvalid, "coordinate");
}

TEST(Identity, TextThatIsNoUtf8IsRefused) {
  for (const char* text : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                           "\xc3", "a\x80", "\xf0\x80\x80\x80"}) {
    NamespaceFields fields = smallest();
    fields.model = text;
    EXPECT_FALSE(encode_identity(fields).ok()) << hex(as_bytes(text));
  }
  NamespaceFields fields = smallest();
  fields.model = "\xf4\x8f\xbf\xbf\xed\x9f\xbf";
  EXPECT_TRUE(encode_identity(fields).ok());
}

TEST(Identity, OnlyTheCanonicalFormIsDecoded) {
  const auto good = encoded(smallest());
  const size_t first = 10;  // bytes of the format version's entry
  std::vector<std::byte> swapped(good.begin() + first, good.end());
  swapped.insert(swapped.end(), good.begin(), good.begin() + first);
  expect_refused(decode_identity(swapped).status(), Code::kInvalid, "canonical");
  std::vector<std::byte> twice(good.begin(), good.begin() + first);
  twice.insert(twice.end(), good.begin(), good.end());
  expect_refused(decode_identity(twice).status(), Code::kInvalid, "canonical");
  auto later = good;
  later[6] = std::byte{2};
  expect_refused(decode_identity(later).status(), Code::kInvalid, "format version");
  auto unknown = good;
  for (const int b : {99, 0, 0, 0, 0, 0}) unknown.push_back(static_cast<std::byte>(b));
  expect_refused(decode_identity(unknown).status(), Code::kInvalid, "tag 99");
  expect_refused(decode_identity({}).status(), Code::kInvalid, "model");
}

TEST(Identity, NoMutilatedEncodingIsTakenForAnother) {
  NamespaceFields fields = smallest();
  fields.adapter = "ab";
  fields.extra = {{"a", "b"}, {"c", "d"}};
  const auto good = encoded(fields);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    // An exact copy, so that a sanitizer sees any read past the end.
    const std::vector<std::byte> prefix(good.begin(), good.begin() + static_cast<long>(cut));
    if (const auto decoded = decode_identity(prefix)) {
      EXPECT_EQ(encoded(*decoded), prefix);
    }
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 1, 0x7f, 0xff}) {
      auto changed = good;
      changed[at] = static_cast<std::byte>(value);
      if (const auto decoded = decode_identity(changed)) {
        EXPECT_EQ(encoded(*decoded), changed);
      }
    }
  }
}

TEST(Identity, HashesReadBackFromTheirText) {
  const Hash128 hash{0x0123456789abcdefull, 0xfedcba9876543210ull};
  EXPECT_EQ(to_hex(hash),
            "efcdab8967452301"
            "1032547698badcfe");
  EXPECT_EQ(hash_from_hex(to_hex(hash)), hash);
  EXPECT_EQ(hash_from_hex("EFCDAB89674523011032547698BADCFE"), hash);
  EXPECT_EQ(hash_from_hex("efcd"), std::nullopt);
  EXPECT_EQ(hash_from_hex(std::string(31, '0') + "g"), std::nullopt);
}

TEST(Identity, GenerationAndKeyLengthEnterThePageHash) {
  const Hash128 id{1, 2};
  EXPECT_NE(page_hash(id, 1, as_bytes("k")), page_hash(id, 2, as_bytes("k")));
  EXPECT_NE(page_hash(id, 1, as_bytes("k")), page_hash(id, 1, as_bytes(std::string("k\0", 2))));
  EXPECT_NE(part_seed({1, 2}, {0, 0, 0, 0}), part_seed({1, 2}, {1, 0, 0, 0}));
}

TEST(Identity, PartsAreFoundByTheirCoordinate) {
  NamespaceFields fields;
  fields.parts = {{{1, 0, 0, 0}, 10}, {{0, 2, 0, 0}, 20}};
  EXPECT_EQ(fields.page_bytes(), 30u);
  EXPECT_EQ(fields.part_index({0, 2, 0, 0}), 1u);
  EXPECT_EQ(fields.part_index({2, 2, 0, 0}), std::nullopt);
}

}  // namespace
}  // namespace kvsidecar
