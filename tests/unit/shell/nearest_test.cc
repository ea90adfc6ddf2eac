// SPDX-License-Identifier: Apache-2.0
// Goal: the word that an error proposes is the one that was meant. Method: known distances.
#include "sidecar/shell/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvsidecar {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, ASwapOfNeighboursIsOneMistake) {
  EXPECT_EQ(edit_distance("bytes", "btyes"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(EditDistance, IsTheSameInBothDirections) {
  EXPECT_EQ(edit_distance("socket", "sockte"), edit_distance("sockte", "socket"));
  EXPECT_EQ(edit_distance("lease", "leases_total"), edit_distance("leases_total", "lease"));
}

TEST(Nearest, TheClosestWordIsProposed) {
  const std::vector<std::string> known{"read", "put", "clear", "admin"};
  EXPECT_EQ(nearest("claer", known), "clear");
  EXPECT_EQ(nearest("rea", known), "read");
  EXPECT_EQ(nearest("xyz", std::span<const std::string>()), "");
}

}  // namespace
}  // namespace kvsidecar
