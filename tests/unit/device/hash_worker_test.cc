// SPDX-License-Identifier: Apache-2.0
// Goal: a hash worker proves pages, part by part, and its queues are bounded. Method: pages of two
// parts with known digests, stepped by hand and once by a thread.
#include "sidecar/device/hash_worker.h"

#include <poll.h>

#include "sidecar/digest.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

struct Page {
  Page() : bytes(3 * kLeafBytes + 77) {
    fill_pattern(bytes.data(), bytes.size(), 1);
    parts = {{{0, 0, 0, 0}, kLeafBytes + 70}, {{1, 0, 0, 0}, 2 * kLeafBytes + 7}};
    digests = {part_digest(Bytes(bytes).first(parts[0].bytes), part_seed(hash, {0, 0, 0, 0})),
               part_digest(Bytes(bytes).subspan(parts[0].bytes), part_seed(hash, {1, 0, 0, 0}))};
  }
  HashCommand command(uint64_t token, std::vector<uint64_t> expected) const {
    return {token, bytes.data(), parts, hash, std::move(expected)};
  }
  std::vector<std::byte> bytes;
  std::vector<PartSpec> parts;
  Hash128 hash{11, 22};
  std::vector<uint64_t> digests;
};

TEST(HashWorker, ComputesTheDigestOfEachPart) {
  const Page page;
  HashWorker worker(4, nullptr);
  EXPECT_FALSE(worker.step());
  ASSERT_TRUE(worker.submit(page.command(9, {})));
  EXPECT_TRUE(worker.has_work());
  EXPECT_TRUE(worker.step());
  HashDone done;
  ASSERT_TRUE(worker.poll(done));
  EXPECT_EQ(done.token, 9u);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_EQ(done.digests, page.digests);
  EXPECT_FALSE(worker.poll(done));
}

TEST(HashWorker, OneWrongBitIsCorruptAndTheRightPageIsOk) {
  Page page;
  HashWorker worker(4, nullptr);
  HashDone done;
  ASSERT_TRUE(worker.submit(page.command(1, page.digests)));
  worker.step();
  ASSERT_TRUE(worker.poll(done));
  EXPECT_EQ(done.status, Code::kOk);
  page.bytes.back() ^= std::byte{1};
  ASSERT_TRUE(worker.submit(page.command(2, page.digests)));
  worker.step();
  ASSERT_TRUE(worker.poll(done));
  EXPECT_EQ(done.status, Code::kCorrupt);
}

TEST(HashWorker, PartsInEachOthersPlaceAreCorrupt) {
  Page page;
  std::swap(page.digests[0], page.digests[1]);
  HashWorker worker(4, nullptr);
  ASSERT_TRUE(worker.submit(page.command(1, page.digests)));
  worker.step();
  HashDone done;
  ASSERT_TRUE(worker.poll(done));
  EXPECT_EQ(done.status, Code::kCorrupt);
}

TEST(HashWorker, AFullQueueSaysSoAndUnreadCompletionsStopIt) {
  const Page page;
  HashWorker worker(2, nullptr);
  ASSERT_TRUE(worker.submit(page.command(1, {})));
  ASSERT_TRUE(worker.submit(page.command(2, {})));
  EXPECT_FALSE(worker.submit(page.command(3, {})));
  EXPECT_TRUE(worker.step());
  EXPECT_TRUE(worker.step());
  ASSERT_TRUE(worker.submit(page.command(3, {})));
  EXPECT_FALSE(worker.step());
  EXPECT_FALSE(worker.has_work());
  HashDone done;
  ASSERT_TRUE(worker.poll(done));
  EXPECT_TRUE(worker.has_work());
  EXPECT_TRUE(worker.step());
}

TEST(HashWorker, AThreadAnswersAndWakesTheConductor) {
  const Page page;
  Waker conductor;
  HashWorker worker(4, &conductor);
  WorkerThread thread(worker, "hash");
  conductor.announce();
  ASSERT_TRUE(worker.submit(page.command(5, page.digests)));
  pollfd woken{conductor.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&woken, 1, 20'000), 1);
  HashDone done;
  ASSERT_TRUE(worker.poll(done));
  EXPECT_EQ(done.token, 5u);
  EXPECT_EQ(done.status, Code::kOk);
}

}  // namespace
}  // namespace kvsidecar
