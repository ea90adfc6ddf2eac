// SPDX-License-Identifier: Apache-2.0
// Goal: ring and socket keep no common order: a registration waits for its fd, and says so when
// none comes. Method: a request whose fd is offered later, or never.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/engine.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kBytes = 64 * 1024;
constexpr uint64_t kNonce = 0x5eed;

class RegionFd : public ::testing::Test {
 protected:
  RegionFd() : node_({}, remains_, clock_, random_), engine_(node_, clock_, kBytes) {}
  uint64_t request(uint64_t token) {
    return engine_.send(RecordType::kRegisterRegion,
                        RegisterRegionRequest{token, 0, kBytes, 0, 0, kNonce});
  }
  UniqueFd memory() {
    UniqueFd fd = make_sealed_memfd("region", kBytes).take();
    const MappedMemory map = MappedMemory::map(fd.get(), 0, kBytes, Access::kReadWrite).take();
    std::memcpy(map.data(), &kNonce, sizeof kNonce);
    return fd;
  }

  FakeClock clock_;
  SeededRandom random_{1};
  NodeRemains remains_;
  Node node_;
  Engine engine_;
};

TEST_F(RegionFd, ARegistrationWaitsForTheFdThatIsStillInTheSocket) {
  const uint64_t number = request(7);
  ASSERT_TRUE(node_.settle());
  EXPECT_FALSE(engine_.answer(number).has_value());
  ASSERT_TRUE(node_.conductor().offer_fd(engine_.session(), 7, memory()));
  EXPECT_EQ(engine_.wait(number).status(), Code::kOk);
}

TEST_F(RegionFd, ARegistrationWhoseFdNeverComesSaysSoAtItsDeadline) {
  const uint64_t number = request(7);
  ASSERT_TRUE(node_.settle());
  clock_.advance_ns(2 * engine_.timeout_ns);
  const Answer answer = engine_.wait(number);
  EXPECT_EQ(answer.status(), Code::kInvalid);
  EXPECT_NE(answer.text.find("token 7"), std::string::npos) << answer.text;
}

TEST_F(RegionFd, ASessionThatEndsMeanwhileIsFreed) {
  request(7);
  ASSERT_TRUE(node_.settle());
  engine_.die();
  ASSERT_TRUE(node_.settle());
  EXPECT_EQ(node_.conductor().gauges().sessions, 0u);
}

}  // namespace
}  // namespace kvsidecar::testing
