// SPDX-License-Identifier: Apache-2.0
// Goal: where a slot lies is exactly what was said last, and a segment that was written evenly
// takes next to no memory, whatever came first. Method: random calls beside a map; the orders in
// which writes end.
#include "sidecar/store/slot_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kSlots = 4096;
constexpr uint64_t kStride = 128 * kSlotUnit;

uint64_t even_offset(uint32_t slot) { return (slot + 1) * kStride; }

TEST(SlotPlaces, AnEvenSegmentTakesOneStretchInWhateverOrderItsWritesEnd) {
  std::mt19937 random(5);
  std::vector<uint32_t> order(kSlots);
  std::iota(order.begin(), order.end(), 0u);
  for (const char* kind : {"in order", "backwards", "shuffled"}) {
    if (kind[0] == 'b') std::reverse(order.begin(), order.end());
    if (kind[0] == 's') std::shuffle(order.begin(), order.end(), random);
    SlotPlaces places;
    for (const uint32_t slot : order) places.set(slot, {even_offset(slot), 256});
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_EQ(places.find(slot)->offset, even_offset(slot)) << kind;
      ASSERT_EQ(places.find(slot)->trailer_bytes, 256u) << kind;
    }
    EXPECT_FALSE(places.find(kSlots).has_value());
    if (kind[0] != 's') {
      EXPECT_LE(places.memory_bytes(), 256u) << kind;
    }
  }
}

TEST(SlotPlaces, IsAMapUnderRandomCalls) {
  std::mt19937 random(9);
  for (int round = 0; round < 40; ++round) {
    SlotPlaces places;
    std::map<uint32_t, SlotPlace> model;
    for (int step = 0; step < 1'500; ++step) {
      const auto slot = static_cast<uint32_t>(random() % 128);
      const auto odd = [&](uint32_t one_in) { return random() % one_in == 0; };
      if (odd(4)) {
        EXPECT_EQ(places.clear(slot), model.erase(slot) == 1);
      } else {
        const uint64_t offset = odd(6) ? (1 + random() % 9'000) * kSlotUnit : even_offset(slot);
        const SlotPlace place{offset, odd(8) ? 128u : 256u};
        places.set(slot, place);
        model[slot] = place;
      }
      const auto probe = static_cast<uint32_t>(random() % 130);
      const auto known = model.find(probe);
      const auto found = places.find(probe);
      ASSERT_EQ(found.has_value(), known != model.end()) << probe;
      if (!found) continue;
      ASSERT_EQ(found->offset, known->second.offset) << probe;
      ASSERT_EQ(found->trailer_bytes, known->second.trailer_bytes) << probe;
    }
    places.clear_all();
    for (uint32_t slot = 0; slot < 130; ++slot) ASSERT_FALSE(places.find(slot).has_value());
    EXPECT_EQ(places.memory_bytes(), 0u);
  }
}

TEST(SlotPlaces, TheFarthestOffsetIsKeptWhole) {
  SlotPlaces places;
  const uint64_t last = uint64_t{UINT32_MAX} * kSlotUnit;
  places.set(0, {kSlotUnit, 1});
  places.set(1, {last, 1});
  EXPECT_EQ(places.find(1)->offset, last);
  EXPECT_DEATH(places.set(2, {last + kSlotUnit, 1}), "check failed");
  EXPECT_DEATH(places.set(2, {0, 1}), "check failed");
}

}  // namespace
}  // namespace kvsidecar
