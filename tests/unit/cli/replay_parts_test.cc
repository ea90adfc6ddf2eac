// SPDX-License-Identifier: Apache-2.0
// Goal: a replay that goes wrong says so: wrong bytes are counted, counts that don't add up and
// replays without a hit fail, each cause is told once and named in the verdict, percentiles are
// right.
// Method: page contents, histograms and reports made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "clients/cli/replay/blocks.h"
#include "clients/cli/replay/page_content.h"
#include "clients/cli/replay/report.h"

namespace kvsidecar {
namespace {

TEST(PageContent, FollowsFromSeedAndPageAlone) {
  std::vector<std::byte> a(4096), b(4096);
  fill_page(1, 7, a);
  fill_page(1, 7, b);
  EXPECT_EQ(a, b);
  fill_page(1, 8, b);
  EXPECT_NE(a, b);
  fill_page(2, 7, b);
  EXPECT_NE(a, b);
  EXPECT_NE(replay_key(1, 7), replay_key(1, 8));
  EXPECT_NE(replay_key(1, 7), replay_key(2, 7));
}

TEST(PageContent, EveryWrongByteIsCounted) {
  std::vector<std::byte> page(8192);
  fill_page(1, 7, page);
  EXPECT_EQ(wrong_bytes(1, 7, page), 0u);
  for (const size_t at : {size_t{0}, size_t{4095}, page.size() - 1}) page[at] ^= std::byte{1};
  EXPECT_EQ(wrong_bytes(1, 7, page), 3u);
  // Another page's bytes, and bytes that nobody wrote.
  EXPECT_GT(wrong_bytes(1, 8, page), 8000u);
  page.assign(page.size(), std::byte{0xa5});
  EXPECT_GT(wrong_bytes(1, 7, page), 8000u);
}

TEST(LatencyHistogram, PercentilesLieWithinSixPercentAbove) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), 0u);
  for (uint64_t ns = 1; ns <= 100000; ++ns) histogram.add(ns);
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    const double exact = share * 100000;
    const auto found = static_cast<double>(histogram.percentile(share));
    EXPECT_GE(found, exact);
    EXPECT_LE(found, exact * 1.07);
  }
  LatencyHistogram edges;
  edges.add(~uint64_t{0});  // beyond the last bucket: kept, not lost
  EXPECT_GT(edges.percentile(0.5), 1'000'000'000'000u);
}

TEST(Blocks, EachIsHandedOutOnce) {
  Blocks blocks(100);
  auto first = blocks.take(60), second = blocks.take(40);
  EXPECT_EQ(blocks.available(), 0u);
  first.insert(first.end(), second.begin(), second.end());
  std::sort(first.begin(), first.end());
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(first[i], i);
  blocks.give_back(first);
  EXPECT_EQ(blocks.available(), 100u);
}

ReplayReport good_report() {
  ReplayReport report;
  report.requests = 10;
  report.pages_looked_up = 100;
  report.pages_host = 30;
  report.pages_store = 10;
  report.pages_missed = 60;
  report.restarted = true;
  report.after_restart_hits = 5;
  return report;
}

TEST(Report, AGoodReplayPassesAndSaysWhatItHasSeen) {
  ReplayReport report = good_report();
  EXPECT_EQ(failure_of(report), "");
  report.page_bytes = 4096;
  report.bytes_loaded = 40 * 4096;
  report.outage_ms = 225.2;
  report.restart_store = 3;
  EXPECT_EQ(verdict(report),
            "PASSED: 40 pages compared, 0 bytes wrong; daemon killed, back after 225 ms, cache "
            "warm");
  EXPECT_NE(report_json(report).find("\"passed\": true"), std::string::npos);
  report.restarted = false;
  EXPECT_EQ(verdict(report), "PASSED: 40 pages compared, 0 bytes wrong");
  report.pages_put = 50;
  report.pages_put_refused = 7;
  EXPECT_EQ(verdict(report), "PASSED: 40 pages compared, 0 bytes wrong, 7 not taken in");
}

TEST(Report, EachWayToFailIsNamed) {
  const auto failing = [](auto change) {
    ReplayReport report = good_report();
    change(report);
    EXPECT_EQ(verdict(report), "FAILED: " + failure_of(report));
    return failure_of(report);
  };
  EXPECT_EQ(failing([](ReplayReport& r) { r.bytes_wrong = 3; }), "3 bytes were wrong");
  EXPECT_EQ(failing([](ReplayReport& r) { r.failed_requests = 2; }), "2 requests failed");
  EXPECT_EQ(failing([](ReplayReport& r) { r.engines_failed = 1; }), "1 engines could not go on");
  EXPECT_EQ(failing([](ReplayReport& r) { r.pages_missed = 59; }), "the counts don't add up");
  EXPECT_EQ(failing([](ReplayReport& r) {
              r.pages_host = r.pages_store = 0;
              r.pages_missed = 100;
            }),
            "nothing hit");
  EXPECT_EQ(failing([](ReplayReport& r) { r.after_restart_hits = 0; }),
            "nothing hit after the restart");
}

TEST(Causes, TheFirstOfItsKindIsToldAndEveryOneIsCounted) {
  auto board = make_scoreboard();
  ASSERT_TRUE(board.ok());
  Causes& causes = (*board)->causes;
  EXPECT_TRUE(causes.add(RequestKind::kPut, Code::kDenied, 1));
  for (int i = 0; i < 289; ++i) EXPECT_FALSE(causes.add(RequestKind::kPut, Code::kDenied, 1));
  EXPECT_TRUE(causes.add(RequestKind::kGet, Code::kDenied, 7));
  EXPECT_TRUE(causes.add(RequestKind::kPut, Code::kDraining, 500));
  EXPECT_TRUE(causes.add(RequestKind::kLookup, static_cast<Code>(200), 1));  // a newer daemon's
  const auto list = causes.list();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(cause_name(list[0]) + " " + cause_count(list[0]), "put DRAINING 500 pages");
  EXPECT_EQ(cause_name(list[1]) + " " + cause_count(list[1]), "put DENIED 290 pages");
  EXPECT_EQ(cause_name(list[2]) + " " + cause_count(list[2]), "get DENIED 7 pages");
  EXPECT_EQ(cause_name(list[3]) + " " + cause_count(list[3]), "lookup INTERNAL 1 times");
}

TEST(Report, WhereNothingCouldBePutTheVerdictNamesCauseAndRemedy) {
  ReplayReport report;
  report.requests = 5;
  report.pages_looked_up = report.pages_missed = report.pages_put_refused = 298;
  report.causes = {{RequestKind::kPut, Code::kDenied, 298}};
  EXPECT_EQ(failure_of(report),
            "no page could be put: put DENIED, 298 pages; list put in the permissions of this "
            "user's [[allow]] entry in kvsidecar.toml");
  report.causes = {{RequestKind::kPut, Code::kDraining, 298}};
  EXPECT_NE(failure_of(report).find("systemctl restart"), std::string::npos);
  EXPECT_NE(report_table(report).find("put DRAINING"), std::string::npos) << report_table(report);
  EXPECT_NE(report_json(report).find("\"status\": \"DRAINING\""), std::string::npos);
}

TEST(Report, RequestsThatFailedAreExplainedByWhatFailedNotByWhatWasRefused) {
  ReplayReport report = good_report();
  report.failed_requests = 4;
  report.pages_put_refused = 900;
  report.causes = {{RequestKind::kPut, Code::kBusy, 900}, {RequestKind::kLookup, Code::kDenied, 4}};
  EXPECT_EQ(failure_of(report),
            "4 requests failed: lookup DENIED, 4 times; list read in the permissions of this "
            "user's [[allow]] entry in kvsidecar.toml");
}

TEST(Report, IsMadeFromTheSumOfTheEngines) {
  auto board = make_scoreboard();
  ASSERT_TRUE(board.ok());
  Scoreboard& scores = **board;
  scores.engines[0].requests = 4;
  scores.engines[1].requests = 6;
  scores.engines[0].pages_host = 1;
  scores.engines[1].pages_store = 2;
  scores.engines[0].bytes_loaded = 3000;
  scores.engines[0].load_ns = 1000;
  scores.causes.add(RequestKind::kPut, Code::kBusy, 6);
  scores.engines[1].lookup.add(2000);
  scores.killed_ns = 1'000'000;
  scores.restored_ns = 3'000'000;
  const ReplayReport report = report_of(scores);
  EXPECT_EQ(report.requests, 10u);
  EXPECT_EQ(report.hits(), 3u);
  ASSERT_EQ(report.causes.size(), 1u);
  EXPECT_EQ(report.causes[0].count, 6u);
  EXPECT_DOUBLE_EQ(report.load_gb_per_s, 3.0);
  EXPECT_NEAR(report.lookup_p50_us, 2.0, 0.13);
  EXPECT_TRUE(report.restarted);
  EXPECT_DOUBLE_EQ(report.outage_ms, 2.0);
  EXPECT_NE(report_json(report).find("\"pages_store\": 2"), std::string::npos);
  EXPECT_NE(report_table(report).find("3.00 GB/s"), std::string::npos) << report_table(report);
}

}  // namespace
}  // namespace kvsidecar
