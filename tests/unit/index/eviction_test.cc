// SPDX-License-Identifier: Apache-2.0
//
// Goal: the eviction policy offers the right pages, never a wrong one, and holds its bounds.
// Method: a small pool drives Eviction as the daemon does (lookup, then put); what it must never do
// is checked against a mirror over random calls.
#include "sidecar/index/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <unordered_map>
#include <vector>

namespace kvsidecar {
namespace {

const auto kAny = [](uint32_t) { return true; };

// A host pool of pages without bytes.
class Pool {
 public:
  explicit Pool(uint32_t n) : eviction(n), pages_(n, 0), free_(n) {
    std::iota(free_.rbegin(), free_.rend(), 0u);
  }

  // One engine request: looks the prompt up, puts what is missing. Returns the leading hits.
  size_t prompt(const std::vector<uint64_t>& pages) {
    const uint32_t n = static_cast<uint32_t>(pages.size());
    size_t hits = 0;
    bool leading = true;
    std::vector<uint32_t> missing;
    ++request;
    for (uint32_t i = 0; i < n; ++i) {
      const auto it = slots.find(pages[i]);
      leading = leading && it != slots.end();
      hits += leading ? 1 : 0;
      if (it != slots.end()) {
        eviction.touched(it->second, {pages[i], i, n, request});
      } else {
        eviction.missed({pages[i], i, n, request});
        missing.push_back(i);
      }
    }
    ++request;
    for (const uint32_t i : missing) {
      if (free_.empty()) evict();
      put(free_.back(), {pages[i], i, n, request});
    }
    return hits;
  }

  // Frees the slot that the policy gives and returns its page.
  uint64_t evict() {
    const uint32_t slot = eviction.victim(kAny);
    EXPECT_NE(slot, Eviction::kNoSlot);
    return forget(slot);
  }

  void erase(uint64_t page) {
    const uint32_t slot = slots.at(page);
    eviction.erased(slot);
    forget(slot);
  }

  Eviction eviction;
  std::unordered_map<uint64_t, uint32_t> slots;
  uint64_t request = 0;

 private:
  void put(uint32_t slot, const PageAccess& access) {
    free_.pop_back();
    pages_[slot] = access.page;
    slots[access.page] = slot;
    eviction.inserted(slot, access);
  }

  uint64_t forget(uint32_t slot) {
    const uint64_t page = pages_[slot];
    slots.erase(page);
    free_.push_back(slot);
    return page;
  }

  std::vector<uint64_t> pages_;
  std::vector<uint32_t> free_;
};

std::vector<uint64_t> run_of_pages(uint64_t first, size_t count) {
  std::vector<uint64_t> pages(count);
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

TEST(Eviction, ALeafGoesBeforeItsRoot) {
  Pool pool(16);
  pool.prompt(run_of_pages(100, 10));
  for (uint64_t page = 110; page-- > 100;) EXPECT_EQ(pool.evict(), page);
}

TEST(Eviction, APrefixFoundByTheLookupStaysUntilTheSuffixThatThePutBroughtIsGone) {
  Pool pool(16);
  pool.prompt({1, 2});
  pool.prompt({1, 2, 3, 4, 5});
  EXPECT_EQ(pool.evict(), 5u);
  EXPECT_EQ(pool.evict(), 4u);
  EXPECT_EQ(pool.evict(), 3u);
  EXPECT_EQ(pool.evict(), 2u);
  EXPECT_EQ(pool.evict(), 1u);
}

TEST(Eviction, ASharedRootOutlivesAllItsBranches) {
  Pool pool(64);
  for (uint64_t branch = 1; branch <= 10; ++branch) {
    pool.prompt({7, 100 * branch, 100 * branch + 1, 100 * branch + 2});
  }
  for (int i = 0; i < 30; ++i) EXPECT_NE(pool.evict(), 7u);
  EXPECT_EQ(pool.evict(), 7u);
}

TEST(Eviction, UntaughtTheLeastRecentlyUsedGoesFirst) {
  Pool pool(64);
  for (uint64_t page = 1; page <= 50; ++page) pool.prompt({page});
  for (uint64_t page = 1; page <= 50; ++page) EXPECT_EQ(pool.evict(), page);
}

TEST(Eviction, LeasedPagesAreNeverChosen) {
  Pool pool(200);
  for (uint64_t i = 0; i < 20; ++i) pool.prompt(run_of_pages(1000 * i, 10));
  const auto odd = [](uint32_t slot) { return slot % 2 == 1; };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pool.eviction.victim(odd) % 2, 1u);
  EXPECT_EQ(pool.eviction.victim(odd), Eviction::kNoSlot);
  EXPECT_EQ(pool.eviction.resident(), 100u);
}

// O8-10: no call walks over all pages.
TEST(Eviction, ALookForAVictimIsBoundedAndGoesOnWhereItEnded) {
  constexpr uint32_t kSlots = 5000;
  Pool pool(kSlots);
  for (uint64_t i = 0; i < kSlots / 10; ++i) pool.prompt(run_of_pages(1000 * i, 10));
  uint32_t offers = 0;
  const auto only_one = [&offers](uint32_t slot) { return ++offers, slot == 4321; };
  uint32_t found = Eviction::kNoSlot;
  for (int calls = 0; calls < 5 && found == Eviction::kNoSlot; ++calls) {
    offers = 0;
    found = pool.eviction.victim(only_one);
    EXPECT_LE(offers, Eviction::kOffersMax);
  }
  EXPECT_EQ(found, 4321u);
}

TEST(Eviction, AnEmptyPoolHasNoVictim) {
  Eviction eviction(8);
  EXPECT_EQ(eviction.victim(kAny), Eviction::kNoSlot);
  EXPECT_EQ(eviction.coldness(100), 0u);
  EXPECT_EQ(Eviction(0).victim(kAny), Eviction::kNoSlot);
}

TEST(Eviction, ErasedSlotsAreNeverReturned) {
  Pool pool(32);
  pool.prompt(run_of_pages(100, 10));
  pool.prompt(run_of_pages(200, 10));
  for (uint64_t page = 103; page < 107; ++page) pool.erase(page);
  pool.eviction.erased(31);  // was never taken
  std::vector<uint64_t> rest;
  while (pool.eviction.resident() > 0) rest.push_back(pool.evict());
  EXPECT_EQ(rest.size(), 16u);
  for (const uint64_t page : rest) EXPECT_TRUE(page < 103 || page >= 107) << page;
}

TEST(Eviction, TheChildrenOfAnErasedPageAreNotTakenForThoseOfTheNextPageInItsSlot) {
  Pool pool(4);
  pool.prompt({1, 2});
  pool.prompt({3});
  const uint32_t slot = pool.slots.at(1);
  pool.erase(1);
  pool.prompt({4, 5});
  ASSERT_EQ(pool.slots.at(4), slot);
  for (const uint64_t page : {2u, 3u, 5u, 4u}) EXPECT_EQ(pool.evict(), page);
}

TEST(Eviction, NoOrderOfKeysThatAClientSendsHidesPages) {
  Pool pool(12);
  std::mt19937 random(3);
  std::vector<uint64_t> pages = run_of_pages(1, 12);
  for (int round = 0; round < 2000; ++round) {
    std::shuffle(pages.begin(), pages.end(), random);
    pool.prompt(std::vector<uint64_t>(pages.begin(), pages.begin() + 1 + random() % 12));
  }
  while (pool.eviction.resident() > 0) {
    ASSERT_GT(pool.eviction.coldness(pool.request + 1), 0u) << "no page is a leaf";
    pool.evict();
  }
}

// O8-09: what is asked for again stays, however much is written once.
TEST(Eviction, AScanOfOneTimePromptsDoesNotFlushReusedPrompts) {
  // Each of 20 prompts of 10 pages comes back after 20 * (10 + 30) pages; the pool holds 400.
  Pool pool(400);
  uint64_t next_page = 1'000'000;
  size_t hits = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const size_t found = pool.prompt(run_of_pages(i % 20 * 100, 10));
    if (i >= 2000) hits += found;
    pool.prompt(run_of_pages(next_page, 30));
    next_page += 30;
  }
  EXPECT_GT(hits, 2000 * 10 * 9 / 10);  // LRU: none
}

TEST(Eviction, ALoopLargerThanThePoolKeepsAPartInsteadOfNothing) {
  Pool pool(500);
  size_t hits = 0;
  for (uint64_t i = 0; i < 6000; ++i) hits += pool.prompt(run_of_pages(i % 100 * 100, 10));
  EXPECT_GT(hits, 6000 * 10 * 3 / 10);  // the most that any policy reaches is a half; LRU: none
}

TEST(Eviction, WhatWasJustPutStaysAWhileThoughItIsWorthLittle) {
  // 64 reused prompts fill the pool; pages that are used once pass through.
  Pool pool(640);
  uint64_t next_page = 1'000'000;
  for (uint64_t i = 0; i < 4000; ++i) {
    pool.prompt(run_of_pages(i % 64 * 100, 10));
    pool.prompt(run_of_pages(next_page, 10));
    next_page += 10;
  }
  const std::vector<uint64_t> fresh = run_of_pages(2'000'000, 10);
  pool.prompt(fresh);
  for (const uint64_t page : fresh) EXPECT_EQ(pool.slots.count(page), 1u) << page;
}

TEST(Eviction, ColdnessIsTheAgeOfTheNextVictimInRequests) {
  Eviction eviction(8);
  eviction.inserted(0, {10, 0, 1, 5});
  eviction.inserted(1, {11, 0, 1, 9});
  EXPECT_EQ(eviction.coldness(20), 15u);
  eviction.touched(0, {10, 0, 1, 12});
  EXPECT_EQ(eviction.coldness(20), 11u);
  EXPECT_EQ(eviction.victim(kAny), 1u);
  EXPECT_EQ(eviction.coldness(20), 8u);
}

TEST(Eviction, AJumpOfTheRequestNumberIsSurvived) {
  Eviction eviction(300);
  for (uint32_t slot = 0; slot < 300; ++slot) eviction.inserted(slot, {slot + 1, 0, 1, slot + 1});
  eviction.touched(299, {300, 0, 1, uint64_t{1} << 40});
  for (int i = 0; i < 299; ++i) EXPECT_NE(eviction.victim(kAny), 299u);
  EXPECT_EQ(eviction.victim(kAny), 299u);
}

TEST(Eviction, AResizeKeepsPagesAndAddsSlots) {
  Eviction eviction(2);
  eviction.inserted(0, {1, 0, 2, 1});
  eviction.inserted(1, {2, 1, 2, 1});
  eviction.resize(1000);
  eviction.inserted(999, {3, 0, 1, 2});
  eviction.resize(10);
  EXPECT_EQ(eviction.victim(kAny), 1u);
  EXPECT_EQ(eviction.victim(kAny), 0u);
  EXPECT_EQ(eviction.victim(kAny), 999u);
}

TEST(Eviction, ATakenSlotCannotBeTakenAgain) {
  Eviction eviction(2);
  eviction.inserted(0, {1, 0, 1, 1});
  EXPECT_DEATH(eviction.inserted(0, {2, 0, 1, 2}), "check failed");
  EXPECT_DEATH(eviction.touched(1, {2, 0, 1, 2}), "check failed");
  EXPECT_DEATH(eviction.inserted(2, {2, 0, 1, 2}), "check failed");
}

TEST(Eviction, MemoryIs48BytesASlotAndAFixedPart) {
  constexpr uint32_t kSlots = 20'000;
  Pool pool(kSlots);
  const size_t before = pool.eviction.memory_bytes();
  EXPECT_LE(before, size_t{kSlots} * (32 + 16) + 256 * 1024);
  for (uint64_t i = 0; i < 5000; ++i) pool.prompt(run_of_pages(i * 100, 20));
  EXPECT_EQ(pool.eviction.memory_bytes(), before);
}

// Random calls against a mirror: each victim is resident and allowed; equal calls, equal victims.
TEST(Eviction, RandomCallsKeepTheMirrorAndRepeatExactly) {
  constexpr uint32_t kSlots = 64;
  const auto play = [](uint32_t seed) {
    std::mt19937 engine(seed);
    const auto random = [&engine](uint32_t below) {
      return static_cast<uint32_t>(engine()) % below;
    };
    Eviction eviction(kSlots);
    std::vector<uint64_t> resident(kSlots, 0);  // page by slot, 0: free
    std::vector<uint32_t> victims;
    uint64_t request = 1;
    for (int step = 0; step < 20'000; ++step) {
      const uint32_t slot = random(kSlots);
      request += random(4) == 0 ? 1 : 0;
      const PageAccess access{1 + random(200), random(8), random(9), request};
      const uint32_t kind = random(8);
      if (kind == 0) {
        const auto allowed = [slot](uint32_t s) { return s % 4 != slot % 4; };
        const uint32_t victim = eviction.victim(allowed);
        victims.push_back(victim);
        if (victim == Eviction::kNoSlot) continue;
        EXPECT_TRUE(allowed(victim));
        EXPECT_NE(resident[victim], 0u);
        resident[victim] = 0;
      } else if (kind == 1) {
        eviction.erased(slot);
        resident[slot] = 0;
      } else if (kind == 2) {
        eviction.missed(access);
      } else if (resident[slot] == 0) {
        eviction.inserted(slot, access);
        resident[slot] = access.page;
      } else {
        eviction.touched(slot, access);
      }
      const auto taken = kSlots - std::count(resident.begin(), resident.end(), 0u);
      EXPECT_EQ(eviction.resident(), taken);
    }
    return victims;
  };
  for (uint32_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(play(seed), play(seed));
}

TEST(ReuseModel, BucketsCoverAllAgesInOrder) {
  for (uint32_t b = 0; b + 1 < ReuseModel::kBuckets; ++b) {
    EXPECT_EQ(ReuseModel::bucket_of(ReuseModel::bucket_floor(b)), b);
    EXPECT_EQ(ReuseModel::bucket_of(ReuseModel::bucket_floor(b + 1) - 1), b);
  }
  EXPECT_EQ(ReuseModel::bucket_of(UINT32_MAX), ReuseModel::kBuckets - 1);
}

TEST(ReuseModel, APageThatIsDueIsWorthMoreThanOneThatIsOverdue) {
  ReuseModel model(1000);
  // Class 0 comes back after 100 requests or never; class 1 never.
  for (uint32_t request = 1; request <= 4000; ++request) {
    model.used(request, 0, request, ReuseModel::Kind::kInserted);
    model.used(1'000'000 + request, 1, request, ReuseModel::Kind::kInserted);
    if (request > 100 && request % 2 == 0) {
      model.used(request - 100, 2, request, ReuseModel::Kind::kTouched);
    }
  }
  EXPECT_EQ(model.worth(0, 0), 0);
  model.fit(4000);
  const uint32_t due = ReuseModel::bucket_of(90);
  EXPECT_GT(model.worth(0, due), model.worth(0, 0));
  EXPECT_GT(model.worth(0, 0), 10 * model.worth(0, ReuseModel::bucket_of(400)));
  EXPECT_GT(model.worth(0, due), 10 * model.worth(1, due));
}

TEST(ReuseModel, FitsRarerTheMoreItHasSeen) {
  ReuseModel model(1000);
  int fits = 0;
  const auto use = [&](uint32_t pages) {
    fits = 0;
    for (uint32_t page = 1; page <= pages; ++page) {
      model.used(page, 0, page, ReuseModel::Kind::kInserted);
      if (!model.fit_due()) continue;
      model.fit(page);
      ++fits;
    }
  };
  use(4096);
  EXPECT_EQ(fits, 4);
  use(1 << 18);
  use(1 << 18);
  EXPECT_EQ(fits, (1 << 18) / 8192);
}

TEST(ReuseModel, AMissAndTheInsertionThatAnswersItAreOneUse) {
  ReuseModel once(1000);
  ReuseModel twice(1000);
  for (uint32_t request = 1; request <= 1000; ++request) {
    once.used(request, 0, request, ReuseModel::Kind::kMissed);
    once.used(request, 0, request + 1, ReuseModel::Kind::kInserted);
    twice.used(request, 0, request, ReuseModel::Kind::kTouched);
    twice.used(request, 0, request + 1, ReuseModel::Kind::kTouched);
  }
  once.fit(2000);
  twice.fit(2000);
  EXPECT_EQ(once.worth(0, 0), 0);
  EXPECT_GT(twice.worth(0, 0), 0);
}

}  // namespace
}  // namespace kvsidecar
