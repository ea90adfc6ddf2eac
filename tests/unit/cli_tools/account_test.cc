// SPDX-License-Identifier: Apache-2.0
// Goal: the daemon's account is read and shown as it is, also across a restart and from an older
// daemon. Method: accounts written by hand, their text searched.
#include "clients/cli/account.h"

#include <gtest/gtest.h>

#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

Account account_of(const std::string& json) {
  auto account = parse_account(json);
  KV_CHECK(account.ok());
  return account.take();
}

TEST(Account, ReadsWhatTheDaemonTells) {
  const Account a = account_of(
      R"({"epoch": 7, "draining": true, "scanned": true, "device": "host", "store": "file",
          "host_pool": {"bytes": 2048, "page_bytes": 1024, "slots_full": 3},
          "index": {"pages": 5, "bytes": 640}, "sessions": 2, "leases": {"count": 1, "pages": 9},
          "write_behind": {"pages": 4, "bytes": 64}, "segments": {"count": 1, "bytes": 10},
          "counters": {"pages_put": 11}})");
  EXPECT_EQ(a.epoch, 7u);
  EXPECT_TRUE(a.draining);
  EXPECT_EQ(a.pool_page_bytes, 1024u);
  EXPECT_EQ(a.slots_full, 3u);
  EXPECT_EQ(a.lease_pages, 9u);
  EXPECT_EQ(a.write_pages, 4u);
  EXPECT_EQ(a.count("pages_put"), 11u);
  const std::string text = status_text(a, 42);
  EXPECT_NE(text.find("pid 42, epoch 7, draining"), std::string::npos) << text;
  EXPECT_NE(text.find("1.0 KiB of 2.0 KiB (50.0 %)"), std::string::npos) << text;
}

TEST(Account, AFieldThatAnOlderDaemonDoesntTellIsZero) {
  const Account a = account_of(R"({"counters": {}})");
  EXPECT_EQ(a.pool_bytes, 0u);
  EXPECT_EQ(a.count("pages_put"), 0u);
}

TEST(Account, WhatIsNoAccountIsAnErrorThatShowsIt) {
  for (const char* text : {"", "[]", "{}", "{\"counters\"", "hello"}) {
    const auto account = parse_account(text);
    ASSERT_FALSE(account.ok()) << text;
    EXPECT_NE(account.status().text().find(text), std::string::npos);
  }
}

TEST(Account, TopShowsWhatHappenedPerSecond) {
  const Account before = account_of(
      R"({"epoch": 1, "counters": {"pages_put": 100, "bytes_put": 0, "pages_looked_up": 10,
          "pages_found_miss": 10}})");
  const Account now = account_of(
      R"({"epoch": 1, "counters": {"pages_put": 3100, "bytes_put": 4194304,
          "pages_looked_up": 110, "pages_found_miss": 35}})");
  const std::string text = top_text(before, now, 2.0);
  EXPECT_NE(text.find("1.5 k/s"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0 MiB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("75.0 % found"), std::string::npos) << text;
  EXPECT_DOUBLE_EQ(hit_share(before, now), 0.75);
}

TEST(Account, ADaemonThatWasStartedAgainCountsFromZero) {
  const Account before = account_of(R"({"epoch": 1, "counters": {"pages_put": 5000}})");
  const Account now = account_of(R"({"epoch": 2, "counters": {"pages_put": 30}})");
  EXPECT_NE(top_json(before, now, 3.0, "{}").find("\"pages_put\":10.0"), std::string::npos)
      << top_json(before, now, 3.0, "{}");
}

TEST(Print, NumbersAreWrittenForPeople) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(rate_text(12.3), "12 /s");
  EXPECT_EQ(rate_text(1500), "1.5 k/s");
  EXPECT_EQ(percent_text(0.125), "12.5 %");
}

TEST(Print, ColumnsAlignAndNumbersStandRight) {
  Columns table({"name", "pages"});
  table.add({"a", "1"});
  table.add({"öö", "1,000"});
  EXPECT_EQ(table.text(), "name  pages\na         1\nöö    1,000\n");
}

}  // namespace
}  // namespace kvsidecar
