// SPDX-License-Identifier: Apache-2.0
// Goal: pages that never got into the store are seen in status, top and doctor, with the reason and
// what to do about it, and an empty host pool is a failure. Method: accounts written by hand.
#include "clients/cli/dropped_writes.h"

#include <gtest/gtest.h>

#include "clients/cli/doctor_account.h"

namespace kvsidecar {
namespace {

// 79,266 pages completed; so many dropped for each of the three reasons.
Account account_of(uint64_t evicted, uint64_t full, uint64_t quota) {
  Account account;
  account.epoch = 1;
  account.counters = {{"pages_completed", 79266},
                      {"writes_dropped_evicted", evicted},
                      {"writes_dropped_full", full},
                      {"writes_dropped_quota", quota}};
  return account;
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(DroppedWrites, StatusCountsThemAllAndNamesTheLargestReason) {
  const std::string text = status_text(account_of(24000, 200, 22), 1);
  EXPECT_TRUE(has(text, "24,222 pages (30.6 % of the completed ones), most because their page was"))
      << text;
  EXPECT_TRUE(has(status_text(account_of(1, 2, 0), 1), "write-behind queue was full"));
  EXPECT_TRUE(has(status_text(account_of(1, 2, 3), 1), "store_bytes_max"));
}

TEST(DroppedWrites, WhereNoneWasDroppedThatIsSaidToo) {
  EXPECT_TRUE(has(status_text(account_of(0, 0, 0), 1), "  writes dropped      0 pages\n"));
  EXPECT_EQ(reason_text(dropped_writes(account_of(0, 0, 0)).reason), "");
}

TEST(DroppedWrites, TopShowsThoseOfTheIntervalAndTheirReason) {
  const Account before = account_of(1000, 0, 5), now = account_of(1000, 600, 5);
  EXPECT_TRUE(has(top_text(before, now, 2.0), "300 /s, most because the write-behind queue"))
      << top_text(before, now, 2.0);
  EXPECT_TRUE(has(top_text(now, now, 2.0), "writes dropped        0 /s\n"));
}

TEST(DroppedWrites, ADaemonThatWasStartedAgainCountsFromZero) {
  Account now = account_of(7, 0, 0);
  now.epoch = 2;
  EXPECT_EQ(dropped_writes(account_of(24000, 0, 0), now).pages, 7u);
}

TEST(DroppedWrites, TheDoctorWarnsFromATenthOfTheCompletedPagesOn) {
  EXPECT_EQ(check_store_writes(account_of(0, 0, 0)).verdict, Verdict::kOk);
  EXPECT_EQ(check_store_writes(account_of(7900, 0, 0)).verdict, Verdict::kOk);
  const Check evicted = check_store_writes(account_of(24000, 200, 22));
  EXPECT_EQ(evicted.verdict, Verdict::kWarn);
  EXPECT_TRUE(has(evicted.text, "24,222 dropped, 30.6 %")) << evicted.text;
  EXPECT_TRUE(has(evicted.remedy, "host_pool.bytes")) << evicted.remedy;
  EXPECT_TRUE(has(check_store_writes(account_of(0, 9000, 0)).remedy, "store.write_behind_bytes"));
  EXPECT_TRUE(has(check_store_writes(account_of(0, 0, 9000)).remedy, "store_bytes_max"));
}

TEST(HostPool, WithoutAChunkTheDoctorFailsAndSaysWhatToDo) {
  Account account = account_of(0, 0, 0);
  const Check empty = check_host_pool(account);
  EXPECT_EQ(empty.verdict, Verdict::kFail);
  EXPECT_EQ(empty.name, "host pool");
  EXPECT_TRUE(has(empty.text, "no chunk is in")) << empty.text;
  for (const char* word : {"--shm-size", "host_pool.bytes", "chunk_failed"})
    EXPECT_TRUE(has(empty.remedy, word)) << empty.remedy;
  account.pool_bytes = uint64_t{64} << 20;
  account.slots_full = 12;
  const Check full = check_host_pool(account);
  EXPECT_EQ(full.verdict, Verdict::kOk);
  EXPECT_TRUE(has(full.text, "64.0 MiB, 12 pages")) << full.text;
}

}  // namespace
}  // namespace kvsidecar
