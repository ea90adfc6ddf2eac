// SPDX-License-Identifier: Apache-2.0
// Goal: after a kill at any moment the next life finds every page that was reported as stored, with
// exactly its bytes, finds nothing that isn't whole, and leaves no space behind. Method: a child
// process writes, deletes and reports through a pipe until it is killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "sidecar/digest.h"
#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

struct Report {
  uint64_t number = 0;  // of the page
  StoreLocation location;
  bool deleted = false;
};

// Every third page is small; every seventh is deleted as soon as it is stored.
std::unique_ptr<TestPage> page_number(const NamespaceInfo& small, const NamespaceInfo& large,
                                      uint64_t number) {
  return std::make_unique<TestPage>(number % 3 == 0 ? small : large, 1, number);
}

[[noreturn]] void write_until_killed(const FileStoreOptions& options, uint64_t first, int pipe) {
  const auto small = make_namespace("m", 3000), large = make_namespace("m", 200'000);
  auto store = FileStore::open(options, real_clock(), no_faults(), nullptr);
  if (!store) ::_exit(1);
  StoreDriver driver(store.take());
  std::map<uint64_t, std::unique_ptr<TestPage>> out;
  for (uint64_t number = first;; ++number) {
    out[number] = page_number(*small, *large, number);
    driver.submit(out[number]->write(number));
    if (out.size() < 16) continue;
    const StoreDone done = driver.next();
    if (done.status != Code::kOk) ::_exit(2);
    Report report{done.op == StoreOp::kWrite ? done.token : 0, done.location, false};
    out.erase(done.token);
    if (report.number % 7 == 0) {
      StoreDriver& d = driver;
      while (!out.empty()) {  // erase() wants to be alone
        const StoreDone other = d.next();
        const Report also{other.token, other.location, false};
        if (::write(pipe, &also, sizeof also) != sizeof also) ::_exit(3);
        out.erase(other.token);
      }
      report.deleted = d.erase(report.location) == Code::kOk;
    }
    if (::write(pipe, &report, sizeof report) != sizeof report) ::_exit(3);
  }
}

// O1-18
TEST_F(FileStoreTest, AfterAKillEveryPageThatWasReportedIsThere) {
  const auto small = make_namespace("m", 3000), large = make_namespace("m", 200'000);
  std::map<uint64_t, Report> known;
  uint64_t first = 1;
  for (uint64_t round = 0; round < 6; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(options_, first, ends[1]);
    }
    ::close(ends[1]);
    Report report;
    size_t reports = 0;
    const auto take = [&] {
      if (::read(ends[0], &report, sizeof report) != sizeof report) return false;
      known[report.number] = report;
      first = std::max(first, report.number + 100);
      return true;
    };
    while (reports < 5 + round * 17 && take()) ++reports;
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    while (take()) {
    }
    ::close(ends[0]);

    open();
    std::map<std::pair<uint64_t, uint32_t>, FoundPage> found;
    uint64_t found_bytes = 0;
    for (const auto& segment : driver_->scan()) {
      found_bytes += segment->bytes;
      for (const FoundPage& page : segment->pages)
        EXPECT_TRUE(found.emplace(std::pair(segment->segment, page.slot), page).second);
    }
    for (const auto& [number, of] : known) {
      const auto page = page_number(*small, *large, number);
      const bool there = found.count({of.location.segment, of.location.slot}) > 0;
      EXPECT_EQ(there, !of.deleted) << "page " << number;
      EXPECT_EQ(read(*page, of.location), of.deleted ? Code::kMiss : Code::kOk) << number;
    }
    for (const auto& [at, page] : found) {  // also those that nobody heard of
      const auto memory = page_memory(page.page_bytes);
      const StoreDone done = driver_->read({at.first, at.second}, page.page_bytes, memory.get());
      ASSERT_EQ(done.status, Code::kOk);
      const uint64_t seed = part_seed(done.record->hash, Coordinate{});
      EXPECT_EQ(part_digest(Bytes(memory.get(), page.page_bytes), seed),
                done.record->part_digests.at(0));
    }
    // Tombstones take at most two small files; nothing taken in advance is left.
    EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() <= found_bytes + (2u << 20); }));
    close();
  }
  EXPECT_GT(known.size(), 100u);
}

}  // namespace
}  // namespace kvsidecar
