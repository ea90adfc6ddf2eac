// SPDX-License-Identifier: Apache-2.0
// Goal: a figure says whether its reach is kept, in both directions and for both kinds of limit,
// and the floors do what they measure. Method: figures by hand; each floor run once, no time
// asserted.
#include "clients/cli/bench/figure.h"

#include <gtest/gtest.h>

#include <cstring>

#include "clients/cli/bench/floors.h"
#include "clients/cli/bench/plain_server.h"

namespace kvsidecar {
namespace {

Figure figure(double value, double floor, bool more_is_better, double ratio, double limit) {
  Figure f;
  f.name = "a figure";
  f.value = value;
  f.floor = floor;
  f.unit = "us";
  f.more_is_better = more_is_better;
  f.ratio_limit = ratio;
  f.value_limit = limit;
  return f;
}

TEST(Figure, LessIsReachedBelowItsRatio) {
  EXPECT_TRUE(figure(15, 10, false, 1.5, 0).ok());
  EXPECT_FALSE(figure(16, 10, false, 1.5, 0).ok());
  EXPECT_EQ(figure(15, 10, false, 1.5, 0).reach_text(), "<= 1.5 x");
}

TEST(Figure, MoreIsReachedAboveItsRatio) {
  EXPECT_TRUE(figure(9, 10, true, 0.9, 0).ok());
  EXPECT_FALSE(figure(8.9, 10, true, 0.9, 0).ok());
}

TEST(Figure, BothLimitsHaveToBeKept) {
  EXPECT_TRUE(figure(50, 20, false, 4, 60).ok());
  EXPECT_FALSE(figure(61, 20, false, 4, 60).ok());
  EXPECT_FALSE(figure(50, 10, false, 4, 60).ok());
  EXPECT_EQ(figure(50, 20, false, 4, 60).reach_text(), "<= 60 us and <= 4 x");
}

TEST(Figure, WithoutAFloorTheValueAloneCounts) {
  EXPECT_TRUE(figure(0.4, 0, false, 0, 0.5).ok());
  EXPECT_FALSE(figure(0.6, 0, false, 0, 0.5).ok());
  EXPECT_EQ(figure(0.4, 0, false, 0, 0.5).ratio(), 0);
}

TEST(Figure, IsWrittenAsTableAndAsJson) {
  const std::vector<Figure> figures = {figure(15, 10, false, 1.5, 0)};
  EXPECT_NE(figures_text(figures).find("15.0 us"), std::string::npos) << figures_text(figures);
  for (const char* field : {"figure", "value", "unit", "floor", "ratio", "reach", "ok"})
    EXPECT_NE(figures_json(figures).find("\"" + std::string(field) + "\""), std::string::npos);
}

TEST(Figure, MediansArePlain) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(percentile({1, 2, 3, 4, 5}, 1), 5);
}

TEST(Floors, ThePairEchoesSpinningAndSleeping) {
  for (const bool spinning : {true, false}) {
    auto floor = EchoFloor::start(spinning);
    ASSERT_TRUE(floor.ok()) << floor.status().text();
    for (int i = 0; i < 200; ++i) ASSERT_TRUE((*floor)->round_trip_ns().ok());
  }
}

TEST(Floors, ThePlainServerCopiesBothWaysAndFindsWhatItHolds) {
  std::vector<std::byte> keys(16 * 8), asked(16 * 4);
  for (uint64_t i = 0; i < 8; ++i) std::memcpy(&keys[i * 16], &i, sizeof i);
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t key = 6 + i;  // two of them are there
    std::memcpy(&asked[i * 16], &key, sizeof key);
  }
  auto started = PlainServer::start({.page_bytes = 4096, .blocks = 4, .slots = 8, .keys = keys});
  ASSERT_TRUE(started.ok()) << started.status().text();
  PlainServer& server = **started;
  for (uint32_t i = 0; i < 50; ++i) {
    const PlainServer::Copy copies[2] = {{0, i % 8}, {1, (i + 1) % 8}};
    std::memset(server.block(0), static_cast<int>(i), 4096);
    ASSERT_TRUE(server.put_ns(copies).ok());
    EXPECT_EQ(std::memcmp(server.slot(i % 8), server.block(0), 4096), 0);
    const PlainServer::Copy back[1] = {{3, i % 8}};
    ASSERT_TRUE(server.get_ns(back).ok());
    EXPECT_EQ(std::memcmp(server.block(3), server.block(0), 4096), 0);
  }
  uint32_t found = 0;
  ASSERT_TRUE(server.find_ns(asked, found).ok());
  EXPECT_EQ(found, 2u);
}

TEST(Floors, MemcpyCopiesEveryPieceWithAnyNumberOfThreads) {
  std::vector<std::byte> from(64 * 100, std::byte{7});
  for (const uint32_t threads : {1u, 2u, 3u}) {
    std::vector<std::byte> to(from.size());
    std::vector<Piece> pieces;
    for (size_t i = 0; i < 100; ++i) pieces.push_back({&to[i * 64], &from[i * 64], 64});
    (void)memcpy_ns(pieces, threads);
    EXPECT_TRUE(to == from) << threads;
  }
}

TEST(Floors, TheBareTableFindsWhatItHolds) {
  std::vector<std::byte> keys(16 * 1000), others(16 * 10);
  for (uint64_t i = 0; i < 1000; ++i) std::memcpy(&keys[i * 16], &i, sizeof i);
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t other = 5000 + i;
    std::memcpy(&others[i * 16], &other, sizeof other);
  }
  const BareTable table(keys);
  uint64_t found = 0;
  (void)table.find_ns(keys, found);
  EXPECT_EQ(found, 1000u);
  (void)table.find_ns(others, found);
  EXPECT_EQ(found, 1000u);
}

}  // namespace
}  // namespace kvsidecar
