// SPDX-License-Identifier: Apache-2.0
// Goal: whatever an engine does to its memory while it is copied, the daemon lives and a digest is
// the digest of the bytes that were stored. Method: a second thread scribbles, punches holes or
// cuts the file short for as long as commands run.
#include <fcntl.h>

#include <functional>
#include <thread>

#include "sidecar/device/copy_worker.h"
#include "sidecar/device/host_device.h"
#include "sidecar/digest.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 2 * 1024 * 1024 + 1000;

// Puts the whole of `engine` `rounds` times, in runs of `run_bytes`, while `disturb` is called in a
// loop by another thread. Calls `check` after each; returns how many ended.
size_t put_while(EngineMemory& engine, uint64_t run_bytes, int rounds,
                 const std::function<void()>& disturb,
                 const std::function<void(const CopyItem&)>& check) {
  HostDevice device(1);
  std::unique_ptr<Region> region = device.import(engine.handle()).take();
  std::vector<std::byte> host(kBytes);
  CopyWorker worker(device, real_clock(), 2, nullptr);
  size_t ended = 0;
  std::atomic<bool> stop{false}, running{false};
  std::thread other([&] {
    while (!stop) {
      disturb();
      running = true;
    }
  });
  while (!running) std::this_thread::yield();
  for (int round = 0; round < rounds; ++round) {
    ClaimPage claims(1);
    CopyItem item;
    item.claim = claims.claim(0);
    item.host = host.data();
    item.bytes = kBytes;
    item.seed = 77;
    for (uint64_t at = 0; at < kBytes; at += run_bytes)
      item.pieces.push_back({host.data() + at, region.get(), at, std::min(run_bytes, kBytes - at)});
    EXPECT_TRUE(worker.submit({CopyKind::kPut, 1, &item, 1, nullptr}));
    CopyDone done;
    while (!worker.poll(done)) worker.step();
    check(item);
    ++ended;
  }
  stop = true;
  other.join();
  device.close(std::move(region));
  return ended;
}

void expect_digest_of_what_was_stored(const CopyItem& item) {
  EXPECT_EQ(item.status, Code::kOk);
  EXPECT_EQ(item.digest, part_digest(Bytes(item.host, item.bytes), item.seed));
}

TEST(CopyRaces, BytesThatChangeUnderTheCopyHaveTheDigestOfWhatWasStored) {
  for (const uint64_t run_bytes : {kBytes, uint64_t{16384}, uint64_t{10'000}}) {
    EngineMemory engine(kBytes);
    uint64_t round = 0;
    const auto scribble = [&] {
      ++round;
      for (uint64_t at = round % 8; at < kBytes; at += 512)
        engine.data()[at] = static_cast<std::byte>(round);
    };
    put_while(engine, run_bytes, 40, scribble, expect_digest_of_what_was_stored);
  }
}

TEST(CopyRaces, HolesPunchedUnderTheCopyAreZerosWithTheirDigest) {
  EngineMemory engine(kBytes);
  std::memset(engine.data(), 0x77, kBytes);
  const auto punch = [&] {
    ASSERT_EQ(::fallocate(engine.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes),
              0);
    std::memset(engine.data(), 0x77, kBytes);
  };
  put_while(engine, 16384, 40, punch, expect_digest_of_what_was_stored);
}

TEST(CopyRaces, AFileCutShortUnderTheCopyIsAMemoryFaultOrWasCopiedBefore) {
  EngineMemory engine(kBytes);
  const auto cut = [&] {
    ASSERT_EQ(::ftruncate(engine.fd.get(), kBytes / 2), 0);
    ASSERT_EQ(::ftruncate(engine.fd.get(), kBytes), 0);
  };
  const auto check = [](const CopyItem& item) {
    if (item.status == Code::kMemoryFault) return;
    expect_digest_of_what_was_stored(item);
  };
  EXPECT_EQ(put_while(engine, 65536, 60, cut, check), 60u);
}

}  // namespace
}  // namespace kvsidecar
