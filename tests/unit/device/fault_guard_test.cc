// SPDX-License-Identifier: Apache-2.0
// Goal: a file that shrinks under a copy ends that copy and nothing else. Method: mappings of
// memfds that are cut short, touched inside and outside the guard.
#include "sidecar/device/fault_guard.h"

#include <signal.h>

#include <thread>

#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 64 * 1024;

std::byte touch(const std::byte* address) {
  return *static_cast<const volatile std::byte*>(address);
}

// A mapping whose second half is beyond the end of the file.
EngineMemory half_gone() {
  EngineMemory memory(kBytes);
  KV_CHECK(::ftruncate(memory.fd.get(), kBytes / 2) == 0);
  return memory;
}

TEST(FaultGuard, SaysNullWhenNothingHappens) {
  int calls = 0;
  auto body = [&] { ++calls; };
  EXPECT_EQ(guarded(body), nullptr);
  EXPECT_EQ(calls, 1);
}

TEST(FaultGuard, AFaultEndsTheBodyAndNamesTheAddress) {
  const EngineMemory memory = half_gone();
  bool came_to_end = false;
  auto body = [&] {
    touch(memory.data() + kBytes / 2 + 5);
    came_to_end = true;
  };
  const auto* address = static_cast<const std::byte*>(guarded(body));
  EXPECT_FALSE(came_to_end);
  EXPECT_GE(address, memory.data() + kBytes / 2);
  EXPECT_LT(address, memory.data() + kBytes / 2 + 4096);
}

TEST(FaultGuard, GuardsAgainAfterAFault) {
  const EngineMemory memory = half_gone();
  auto bad = [&] { touch(memory.data() + kBytes - 1); };
  auto good = [&] { touch(memory.data()); };
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(guarded(bad), nullptr);
    EXPECT_EQ(guarded(good), nullptr);
  }
}

TEST(FaultGuard, AnInnerGuardKeepsTheFaultFromTheOuter) {
  const EngineMemory memory = half_gone();
  const void* inner_address = nullptr;
  bool outer_came_to_end = false;
  auto outer = [&] {
    auto inner = [&] { touch(memory.data() + kBytes - 1); };
    inner_address = guarded(inner);
    outer_came_to_end = true;
  };
  EXPECT_EQ(guarded(outer), nullptr);
  EXPECT_NE(inner_address, nullptr);
  EXPECT_TRUE(outer_came_to_end);
}

TEST(FaultGuard, EachThreadHasAGuardOfItsOwn) {
  const EngineMemory memory = half_gone();
  std::atomic<int> faults{0};
  auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      auto bad = [&] { touch(memory.data() + kBytes - 1); };
      if (guarded(bad) != nullptr) ++faults;
    }
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  EXPECT_EQ(faults, 400);
}

using FaultGuardDeathTest = ::testing::Test;

TEST(FaultGuardDeathTest, AFaultOutsideTheGuardStillKills) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const EngineMemory memory = half_gone();
        auto nothing = [] {};
        guarded(nothing);
        touch(memory.data() + kBytes - 1);
      },
      "");
}

TEST(FaultGuardDeathTest, ASignalThatSomebodySentGoesToTheHandlerBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(17); });
        auto body = [] { raise(SIGBUS); };
        guarded(body);
        _exit(0);
      },
      ::testing::ExitedWithCode(17), "");
}

}  // namespace
}  // namespace kvsidecar
