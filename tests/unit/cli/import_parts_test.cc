// SPDX-License-Identifier: Apache-2.0
// Goal: what HF3FS's files say is read exactly, or refused. Method: texts and layouts written by
// hand; of a whole file also every beginning, and every byte of it changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "clients/cli/import/data_file.h"
#include "clients/cli/import/metadata_json.h"
#include "clients/cli/import/record_layout.h"
#include "clients/cli/import/record_table.h"
#include "ipc/page_origin.h"

namespace kvsidecar {
namespace {

const std::string kHash(64, 'b');

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    std::string path = testing::TempDir() + "import-XXXXXX";
    const UniqueFd fd(mkstemp(path.data()));
    path_ = path;
    KV_CHECK(write(fd.get(), content.data(), content.size()) ==
             static_cast<ssize_t>(content.size()));
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Heard final : MetadataSink {
  std::string text;
  Status begin_table(uint32_t rank, const std::string& pool) override {
    text += std::to_string(rank) + ":" + pool + " ";
    return {};
  }
  void num_pages(uint64_t pages) override { text += "n" + std::to_string(pages) + " "; }
  void free_page(uint64_t index) override { text += "f" + std::to_string(index) + " "; }
  void record(std::string_view key, uint64_t index) override {
    text += std::string(key) + "=" + std::to_string(index) + " ";
  }
};

Status read(const std::string& content, Heard& heard) {
  const TemporaryFile file(content);
  return read_metadata(file.path(), heard);
}

const std::string kWhole = R"({"0:kv": {"num_pages": 3, "free_pages": [2, 0], "key_to_index":
  [["a", 1], ["b", -4]]}, "7": {"more": {"x": [[1, "]"], null]}, "key_to_index": []}})";

TEST(MetadataJson, TablesAndRecordsAreToldInTheirOrder) {
  Heard heard;
  ASSERT_TRUE(read(kWhole, heard).ok());
  EXPECT_EQ(heard.text, "0:kv n3 f2 f0 a=1 b=" + std::to_string(kImpossibleIndex) + " 7:kv ");
}

TEST(MetadataJson, NoBeginningOfAFileIsTakenForAFile) {
  for (size_t bytes = 0; bytes < kWhole.size(); ++bytes) {
    Heard heard;
    EXPECT_EQ(read(kWhole.substr(0, bytes), heard).code(), Code::kInvalid) << bytes;
  }
}

TEST(MetadataJson, AChangedByteIsReadOrRefused) {
  for (size_t at = 0; at < kWhole.size(); ++at)
    for (const char c : {'\0', '"', '[', '{', '9', '\\', '\xff'}) {
      std::string text = kWhole;
      text[at] = c;
      Heard heard;
      const Status status = read(text, heard);
      EXPECT_TRUE(status.ok() || !status.text().empty());
    }
}

TEST(MetadataJson, ATextWithoutAnEndTakesNoMemory) {
  Heard heard;
  const Status status = read(R"({"0:kv": {")" + std::string(1 << 20, 'x'), heard);
  EXPECT_NE(status.text().find("more than 4096 bytes"), std::string::npos) << status.text();
}

TEST(MetadataJson, ATablesNameIsShownWithoutControlCharacters) {
  Heard heard;
  const Status status = read(R"({"\u001b[2Jx": {}})", heard);
  EXPECT_EQ(status.text().find('\x1b'), std::string::npos);
  EXPECT_NE(status.text().find("?[2Jx"), std::string::npos) << status.text();
}

TEST(RecordKey, NamesOfPagesAreUnderstoodAndNoOthers) {
  EXPECT_EQ(parse_record_key(kHash, "kv")->half, Half::kWhole);
  EXPECT_EQ(parse_record_key(kHash + "-k", "kv")->half, Half::kK);
  EXPECT_EQ(parse_record_key(kHash + "-v", "kv")->half, Half::kV);
  EXPECT_EQ(parse_record_key(kHash + "_swa", "swa")->hash[31], std::byte{0xbb});
  const auto shared = parse_record_key(kHash + "_mamba_3_8", "mamba");
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->tp.value(), 3);
  EXPECT_EQ(shared->tp_size.value(), 8);
  for (const char* end : {"-K", "-k-v", "_kv", "_", " ", "b"})
    EXPECT_FALSE(parse_record_key(kHash + end, "kv").has_value()) << end;
  for (const char* end : {"", "-k", "_mamba_", "_mamba_1", "_mamba_1_", "_mamba_1_2_3", "_mambas",
                          "_mamba_x_2", "_mamba_1_99999"})
    EXPECT_FALSE(parse_record_key(kHash + end, "mamba").has_value()) << end;
}

NamespaceFields fields(const std::string& layout, uint64_t bytes, const std::string& pool = "kv") {
  NamespaceFields fields;
  fields.layout = layout;
  fields.pool = pool;
  fields.parts = {{{}, bytes}};
  return fields;
}

TEST(RecordLayout, LayerFirstDealsKAndVToTheirLayers) {
  const auto layout = record_layout_of(
      fields("layer_first, MHATokenToKVPoolHost, layers 0 2 2, segments 4x10", 40));
  ASSERT_TRUE(layout.ok()) << layout.status().text();
  EXPECT_EQ(layout->records, 1u);
  std::vector<uint64_t> from;
  for (const Piece& piece : layout->pieces) from.push_back(piece.record_offset);
  EXPECT_EQ(from, (std::vector<uint64_t>{0, 20, 10, 30}));  // K0 V0 K1 V1 of K0 K1 V0 V1
}

TEST(RecordLayout, PageFirstHasTwoRecords) {
  for (const char* text : {"page_first, MHATokenToKVPoolHost, layers 0 2 2, segments 2x20",
                           "page_first_direct, MHATokenToKVPoolHost, segments 2x20",
                           "flat, page_first, MHATokenToKVPoolHost"}) {
    const auto layout = record_layout_of(fields(text, 40));
    ASSERT_TRUE(layout.ok()) << text;
    EXPECT_EQ(layout->records, 2u);
    EXPECT_EQ(layout->record_bytes, 20u);
  }
}

TEST(RecordLayout, WhatIsNotKnownIsRefused) {
  for (const char* text :
       {"", ",", "flat", "flat, ", "page_first", "NHD", "page_first, MHATokenToKVPoolHost",
        "page_first, MHATokenToKVPoolHost, segments ",
        "page_first, MHATokenToKVPoolHost, segments 2", "page_first, X, segments 1x40",
        "page_first, MHATokenToKVPoolHost, segments 1x30 1x10",
        "page_first, MHATokenToKVPoolHost, segments 99999999999x1",
        "page_first, MHATokenToKVPoolHost, segments 2x99999999999999999999",
        "page_first, MHATokenToKVPoolHost, segments 0x0",
        "layer_first, MHATokenToKVPoolHost, segments 5x8",
        "page_head, MHATokenToKVPoolHost, segments 2x20"})
    EXPECT_EQ(record_layout_of(fields(text, 40)).status().code(), Code::kInvalid) << text;
  EXPECT_FALSE(
      record_layout_of(fields("page_first, MHATokenToKVPoolHost, segments 2x20", 40, "swa")).ok());
}

TEST(RecordTable, PagesComeInTheirOrderWithTheirRecordsInTheParts) {
  RecordTable table(2, true);
  const PageKey a{std::byte{9}}, b{std::byte{1}};
  uint32_t order = 0;
  for (const PageKey& key : {a, b})
    for (const uint16_t part : {uint16_t{1}, uint16_t{0}})
      for (const Half half : {Half::kV, Half::kK})
        table.add({key, order, ++order, part, part, half});
  const auto pages = table.pages({PlaceMap(8), PlaceMap(8)});
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(table.record(pages[0].first).hash, a);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(table.record(pages[0].first + i).part, i / 2);
    EXPECT_EQ(table.record(pages[0].first + i).half, i % 2 == 0 ? Half::kK : Half::kV);
  }
}

TEST(DataName, RankAndPoolAreReadFromTheName) {
  const auto kv = parse_data_name("/d/x.y.3.bin"), swa = parse_data_name("x.0.bin.swa");
  ASSERT_TRUE(kv.ok() && swa.ok());
  EXPECT_EQ(kv->rank, 3u);
  EXPECT_EQ(kv->pool, "kv");
  EXPECT_EQ(swa->pool, "swa");
  EXPECT_EQ(parse_data_name("12:mamba=/d/a=b")->path, "/d/a=b");
  for (const char* name : {"", "x", "x.bin", ".bin", "x.a.bin", "x.-1.bin", "x.1.bin.", "x.1.binx",
                           ":kv=x", "1:=x", "99999999999.bin"})
    EXPECT_FALSE(parse_data_name(name).ok()) << name;
}

TEST(DataFile, AFileThatIsWrittenToHasChanged) {
  const TemporaryFile written("abc");
  auto file = DataFile::open({0, "kv", written.path()});
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->changed());
  ASSERT_EQ(truncate(written.path().c_str(), 2), 0);
  EXPECT_TRUE(file->changed());
  std::byte bytes[3];
  EXPECT_TRUE(file->read(0, std::span(bytes, 2)));
  EXPECT_FALSE(file->read(0, bytes));
}

TEST(PageOrigin, ItIsFoundAmongOtherEntriesAndInNothingElse) {
  std::string text = origin_description("from there");
  EXPECT_EQ(origin_of(std::as_bytes(std::span(text))), "from there");
  const std::string other("\x03\x00\x04\x00\x00\x00zzzz", 10);
  const std::string both = other + text;
  EXPECT_EQ(origin_of(std::as_bytes(std::span(both))), "from there");
  for (size_t bytes = 0; bytes < both.size(); ++bytes)
    EXPECT_EQ(origin_of(std::as_bytes(std::span(both).first(bytes))), "") << bytes;
  EXPECT_LE(origin_description(std::string(500, 'x')).size(), kOriginBytesMax + 6);
}

}  // namespace
}  // namespace kvsidecar
