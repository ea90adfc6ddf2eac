// SPDX-License-Identifier: Apache-2.0
// Goal: claims hold between threads: what was revoked is never touched, what was done is whole.
// Method: a copy worker in its own thread on the host device, while this thread revokes and
// abandons at will; afterwards every status is held against the claim word and the bytes.
#include <poll.h>

#include "sidecar/device/copy_worker.h"
#include "sidecar/device/host_device.h"
#include "sidecar/digest.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kItems = 48;
constexpr uint64_t kPart = 192 * 1024;

class CopyWorkerThread : public ::testing::Test {
 protected:
  CopyWorkerThread() : engine_(kItems * kPart), host_(kItems * kPart), items_(kItems) {
    region_ = device_.import(engine_.handle()).take();
    layout_.blocks = kItems;
    layout_.part_bytes = kPart;
    for (uint64_t r = 0; r < 3; ++r)
      layout_.runs.push_back({region_.get(), r * kItems * kPart / 3, kPart / 3, kPart / 3});
  }
  ~CopyWorkerThread() override { device_.close(std::move(region_)); }

  void prepare(ClaimPage& claims) {
    for (uint32_t i = 0; i < kItems; ++i) {
      items_[i] = CopyItem();
      items_[i].claim = claims.claim(i);
      items_[i].host = &host_[i * kPart];
      items_[i].bytes = kPart;
      items_[i].layout = &layout_;
      items_[i].block = i;
      items_[i].seed = i;
    }
  }
  // Waits for one completion as the conductor does.
  void wait(CopyWorker& worker, Waker& conductor) {
    for (CopyDone done; !worker.poll(done);) {
      conductor.announce();
      const bool there = worker.poll(done);
      pollfd woken{conductor.fd(), POLLIN, 0};
      if (!there) {
        ASSERT_EQ(::poll(&woken, 1, 20'000), 1) << "no completion";
      }
      conductor.retire();
      if (there) return;
    }
  }
  bool run_equals(uint32_t item, const std::vector<std::byte>& image) const {
    for (const BlockLayout::Run& run : layout_.runs) {
      const uint64_t at = run.base + item * run.block_stride;
      if (std::memcmp(engine_.data() + at, &image[at], run.run_length) != 0) return false;
    }
    return true;
  }

  HostDevice device_{5};
  EngineMemory engine_;
  std::vector<std::byte> host_;
  std::vector<CopyItem> items_;
  std::unique_ptr<Region> region_;
  BlockLayout layout_;
};

TEST_F(CopyWorkerThread, AGetWritesExactlyTheItemsThatItWon) {
  Waker conductor;
  CopyWorker worker(device_, real_clock(), 4, &conductor);
  WorkerThread thread(worker, "copy");
  for (uint32_t round = 0; round < 20; ++round) {
    ClaimPage claims(kItems);
    prepare(claims);
    fill_pattern(host_.data(), host_.size(), round);
    std::memset(engine_.data(), 0xcc, kItems * kPart);
    const std::vector<std::byte> canary(engine_.data(), engine_.data() + kItems * kPart);
    ASSERT_TRUE(worker.submit({CopyKind::kGet, round, items_.data(), kItems, nullptr}));
    std::vector<bool> revoked(kItems);
    for (uint32_t i = kItems; i-- > round;)
      revoked[i] = claims.claim(i).move(ClaimState::kQueued, ClaimState::kRevoked);
    wait(worker, conductor);
    for (uint32_t i = 0; i < kItems; ++i) {
      EXPECT_EQ(items_[i].status, revoked[i] ? Code::kRevoked : Code::kOk);
      EXPECT_EQ(run_equals(i, canary), static_cast<bool>(revoked[i])) << i;
      if (revoked[i]) continue;
      EXPECT_EQ(claims.state(i), ClaimState::kDone);
      uint64_t at = i * kPart;
      for (const BlockLayout::Run& run : layout_.runs) {
        const std::byte* engine = engine_.data() + run.base + i * run.block_stride;
        EXPECT_EQ(std::memcmp(engine, &host_[at], run.run_length), 0);
        at += run.run_length;
      }
    }
  }
}

TEST_F(CopyWorkerThread, APutThatCountsHasTheDigestOfItsBytesAndAnAbandonedOneDoesntCount) {
  Waker conductor;
  CopyWorker worker(device_, real_clock(), 4, &conductor);
  WorkerThread thread(worker, "copy");
  fill_pattern(engine_.data(), kItems * kPart, 8);
  for (uint32_t round = 0; round < 20; ++round) {
    ClaimPage claims(kItems);
    prepare(claims);
    ASSERT_TRUE(worker.submit({CopyKind::kPut, round, items_.data(), kItems, nullptr}));
    std::vector<bool> abandoned(kItems);
    for (uint32_t i = round; i < kItems; ++i)
      abandoned[i] = claims.claim(i).move(ClaimState::kCopying, ClaimState::kAbandoned);
    wait(worker, conductor);
    for (uint32_t i = 0; i < kItems; ++i) {
      EXPECT_EQ(items_[i].status, abandoned[i] ? Code::kAbandoned : Code::kOk);
      if (abandoned[i]) continue;
      EXPECT_EQ(items_[i].digest, part_digest(Bytes(host_).subspan(i * kPart, kPart), i));
    }
  }
}

TEST_F(CopyWorkerThread, AFileCutShortUnderTheWorkerFailsThatCommandAndTheNextOneWorks) {
  Waker conductor;
  CopyWorker worker(device_, real_clock(), 4, &conductor);
  WorkerThread thread(worker, "copy");
  EngineMemory victim(kPart);
  std::unique_ptr<Region> region = device_.import(victim.handle()).take();
  ASSERT_EQ(::ftruncate(victim.fd.get(), 0), 0);
  ClaimPage claims(kItems);
  prepare(claims);
  items_[0].layout = nullptr;
  items_[0].pieces = {{host_.data(), region.get(), 0, kPart}};
  ASSERT_TRUE(worker.submit({CopyKind::kPut, 1, items_.data(), 1, nullptr}));
  wait(worker, conductor);
  EXPECT_EQ(items_[0].status, Code::kMemoryFault);
  EXPECT_EQ(claims.state(0), ClaimState::kFailed);
  ASSERT_TRUE(worker.submit({CopyKind::kPut, 2, &items_[1], 1, nullptr}));
  wait(worker, conductor);
  EXPECT_EQ(items_[1].status, Code::kOk);
  device_.close(std::move(region));
}

}  // namespace
}  // namespace kvsidecar
