// SPDX-License-Identifier: Apache-2.0
// Goal: how near the file store comes to the disk. Method: pages of 1 MiB are written and read at
// depth 32 through a store worker, beside fio with io_uring and O_DIRECT on the same folder and
// size, both from shared memory as the host pool's is, in turns; the medians of an even number of
// rounds are compared. Then a folder with a million directory entries is scanned.
//
//   store_bench [--directory DIR] [--bytes N] [--rounds N] [--json]
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "ipc/os.h"
#include "sidecar/store/file_store.h"
#include "sidecar/store/node_folder.h"
#include "sidecar/store/segment_format.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPage = 1 << 20;
// The store keeps 32 pages in flight; as many again wait, so that it needn't wait for us.
constexpr size_t kDepth = 64;
constexpr double kReach = 0.9;

struct Settings {
  std::string directory = ".";
  uint64_t bytes = 1ull << 30;
  int rounds = 4;
  bool json = false;
};

struct Figure {
  std::string name, unit;
  double value = 0, floor = 0, reach = 0;  // floor 0 = not measured
  double ratio() const { return floor > 0 ? value / floor : 0; }
  bool ok() const { return floor == 0 || ratio() >= reach; }
};

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// GB/s that fio reports; 0 when it isn't there or fails.
double run_fio(const Settings& settings, const std::string& folder, const char* mode) {
  const std::string command =
      "fio --name=floor --filename=" + folder + "/floor --rw=" + mode +
      " --bs=1M --size=" + std::to_string(settings.bytes) +
      " --iodepth=32 --ioengine=io_uring --direct=1 --fixedbufs=1 --end_fsync=1 --mem=mmapshared"
      " --output-format=terse --terse-version=3 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string text;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  if (::pclose(pipe) != 0) return 0;
  // Terse version 3: field 7 is the read bandwidth in KiB/s, field 48 the write bandwidth.
  const int wanted = std::string_view(mode) == "read" ? 7 : 48;
  size_t at = text.rfind("3;fio");
  for (int field = 1; field < wanted && at != std::string::npos; ++field) {
    at = text.find(';', at);
    if (at != std::string::npos) ++at;
  }
  if (at == std::string::npos) return 0;
  return std::atof(text.c_str() + at) * 1024 / 1e9;
}

class Conductor {
 public:
  explicit Conductor(const std::string& folder) {
    FileStoreOptions options;
    options.root = options.state_directory = folder;
    options.done_waker = &waker_;
    auto opened = FileStore::open(options, real_clock(), no_faults(),
                                  [](StoreLogLevel level, std::string_view, const std::string& s) {
                                    if (level != StoreLogLevel::kInfo)
                                      std::fprintf(stderr, "%s\n", s.c_str());
                                  });
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.status().text().c_str());
      std::exit(1);
    }
    store_ = opened.take();
    auto fd = make_memfd("store_bench", kDepth * kPage);
    KV_CHECK(fd.ok());
    auto mapped = MappedMemory::map(fd->get(), 0, kDepth * kPage, Access::kReadWrite);
    KV_CHECK(mapped.ok());
    memory_ = mapped.take();
    std::memset(memory_.data(), 1, kDepth * kPage);
    (void)store_->register_memory({memory_.data(), kDepth * kPage});
    worker_ = std::make_unique<WorkerThread>(*store_, "store");
  }
  std::string describe() const { return store_->describe(); }

  // Runs `count` commands at depth 32; returns seconds, or 0 when one failed.
  template <typename Make, typename Take>
  double run(size_t count, Make make, Take take) {
    const double begin = seconds(CLOCK_MONOTONIC);
    std::vector<size_t> free;
    for (size_t i = 0; i < kDepth; ++i) free.push_back(i);
    size_t started = 0, ended = 0;
    while (ended < count) {
      while (started < count && !free.empty()) {
        StoreCommand command = make(started, memory_.data() + free.back() * kPage);
        command.token = started << 8 | free.back();
        KV_CHECK(store_->submit(std::move(command)));
        free.pop_back();
        ++started;
      }
      StoreDone done;
      if (!store_->poll(done)) {
        waker_.announce();
        if (!store_->has_done()) waker_.sleep(10'000'000);
        waker_.retire();
        continue;
      }
      if (done.status != Code::kOk) return 0;
      take(done.token >> 8, done);
      free.push_back(done.token & 0xff);
      ++ended;
    }
    return seconds(CLOCK_MONOTONIC) - begin;
  }
  void flush() {
    StoreCommand command;
    command.op = StoreOp::kFlush;
    KV_CHECK(store_->submit(std::move(command)));
    StoreDone done;
    while (!store_->poll(done)) {
      waker_.announce();
      if (!store_->has_done()) waker_.sleep(10'000'000);
      waker_.retire();
    }
  }

 private:
  Waker waker_;
  MappedMemory memory_;
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<WorkerThread> worker_;
};

void measure_pages(const Settings& settings, const std::string& folder,
                   std::vector<Figure>& figures) {
  const size_t count = settings.bytes / kPage;
  const auto space = make_namespace("bench", kPage);
  const TestPage page(*space, 1, 1);
  std::vector<double> writes, reads, fio_writes, fio_reads;
  for (int round = 0; round < settings.rounds; ++round) {
    // A disk with a budget favours whoever comes first: they take turns at that.
    const bool fio_first = round % 2 == 0;
    if (fio_first) fio_writes.push_back(run_fio(settings, folder, "write"));
    const std::string own = folder + "/round" + std::to_string(round);
    std::filesystem::create_directory(own);
    {
      Conductor conductor(own);
      std::vector<StoreLocation> locations(count);
      const double begin = seconds(CLOCK_MONOTONIC);
      const double written = conductor.run(
          count,
          [&](size_t, std::byte* memory) {
            StoreCommand command = page.write(0);
            command.page = memory;
            return command;
          },
          [&](size_t i, const StoreDone& done) { locations[i] = done.location; });
      conductor.flush();
      const double took = seconds(CLOCK_MONOTONIC) - begin;
      writes.push_back(written == 0 ? 0 : static_cast<double>(count * kPage) / took / 1e9);
      if (!fio_first) fio_writes.push_back(run_fio(settings, folder, "write"));
      if (fio_first) fio_reads.push_back(run_fio(settings, folder, "read"));
      const double read = conductor.run(
          count,
          [&](size_t i, std::byte* memory) {
            StoreCommand command;
            command.op = StoreOp::kRead;
            command.location = locations[i];
            command.page = memory;
            command.page_bytes = kPage;
            return command;
          },
          [](size_t, const StoreDone&) {});
      if (!fio_first) fio_reads.push_back(run_fio(settings, folder, "read"));
      reads.push_back(read == 0 ? 0 : static_cast<double>(count * kPage) / read / 1e9);
      if (round == 0 && !settings.json) std::printf("store: %s\n", conductor.describe().c_str());
    }
    std::filesystem::remove_all(own);
  }
  figures.push_back({"store_write_1mib", "GB/s", median(writes), median(fio_writes), kReach});
  figures.push_back({"store_read_1mib", "GB/s", median(reads), median(fio_reads), kReach});
}

// Segment files with full directories and no data behind them.
uint64_t make_directories(const std::string& folder) {
  constexpr uint32_t kSegments = 16;
  auto claimed = NodeFolder::claim(folder, folder, 0);
  KV_CHECK(claimed.ok());
  const auto space = make_namespace("bench", 4096);
  for (uint32_t n = 1; n <= kSegments; ++n) {
    Superblock superblock;
    superblock.segment = uint64_t{claimed->epoch()} << 32 | n;
    superblock.node = claimed->node();
    superblock.generation = 1;
    superblock.page_bytes = 4096;
    superblock.slot_alignment = kSlotUnit;
    superblock.directory_entries = kDirectoryEntriesMax;
    superblock.encoded = space->encoded;
    std::vector<std::byte> head(superblock.slots_offset());
    encode_superblock(superblock, std::span(head).first(superblock.head_bytes()));
    DirectoryEntry entry;
    entry.kind = EntryKind::kPage;
    entry.page_bytes = 4096;
    entry.trailer_bytes = 128;
    for (uint32_t i = 0; i < kDirectoryEntriesMax; ++i) {
      entry.number = i;
      entry.hash = {n, i};
      entry.offset = superblock.slots_offset() + uint64_t{i} * slot_end(0, 4096, 128);
      std::byte* at = head.data() + superblock.head_bytes() + uint64_t{i} * kEntryBytes;
      encode_entry(entry, superblock.segment, std::span<std::byte, kEntryBytes>(at, kEntryBytes));
    }
    const std::string path = claimed->path() + "/" + segment_name(superblock.segment);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    KV_CHECK(fd &&
             ::pwrite(fd.get(), head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()));
    KV_CHECK(::ftruncate(fd.get(), static_cast<off_t>(entry.offset + 8192)) == 0);
  }
  return uint64_t{kSegments} * kDirectoryEntriesMax;
}

void measure_scan(const std::string& folder, std::vector<Figure>& figures) {
  const std::string own = folder + "/scan";
  std::filesystem::create_directory(own);
  const uint64_t entries = make_directories(own);
  FileStoreOptions options;
  options.root = options.state_directory = own;
  auto store = FileStore::open(options, real_clock(), no_faults(), nullptr);
  KV_CHECK(store.ok());
  StoreDriver driver(store.take());
  const double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t found = 0;
  for (const auto& segment : driver.scan()) found += segment->pages.size();
  const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  KV_CHECK(found == entries);
  // A million entries take well under a second of CPU.
  figures.push_back(
      {"store_scan", "entries per CPU second", static_cast<double>(entries) / cpu, 1e6, 1.0});
  std::filesystem::remove_all(own);
}

void print(const Settings& settings, const std::vector<Figure>& figures) {
  if (settings.json) std::printf("[");
  for (size_t i = 0; i < figures.size(); ++i) {
    const Figure& f = figures[i];
    if (settings.json)
      std::printf(
          "%s{\"figure\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"floor\": %.4g, "
          "\"ratio\": %.4g, \"reach\": %.2g, \"ok\": %s}",
          i == 0 ? "" : ",\n ", f.name.c_str(), f.value, f.unit.c_str(), f.floor, f.ratio(),
          f.reach, f.ok() ? "true" : "false");
    else if (f.floor == 0)
      std::printf("%-18s %10.4g %s (fio is not installed: nothing to compare with)\n",
                  f.name.c_str(), f.value, f.unit.c_str());
    else
      std::printf("%-18s %10.4g %s, floor %.4g, ratio %.2f, reach %.2f: %s\n", f.name.c_str(),
                  f.value, f.unit.c_str(), f.floor, f.ratio(), f.reach,
                  f.ok() ? "reached" : "not reached");
  }
  if (settings.json) std::printf("]\n");
}

int run(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool more = i + 1 < argc;
    if (argument == "--json") {
      settings.json = true;
    } else if (argument == "--directory" && more) {
      settings.directory = argv[++i];
    } else if (argument == "--bytes" && more) {
      settings.bytes = std::max<uint64_t>(std::strtoull(argv[++i], nullptr, 10), 64 * kPage);
    } else if (argument == "--rounds" && more) {
      settings.rounds = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr,
                   "store_bench: unknown argument '%s'; known: --directory DIR, --bytes N, "
                   "--rounds N, --json\n",
                   argv[i]);
      return 2;
    }
  }
  settings.bytes = settings.bytes / kPage * kPage;
  std::string folder = settings.directory + "/kvsidecar-store-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("store_bench: --directory");
    return 2;
  }
  std::vector<Figure> figures;
  measure_pages(settings, folder, figures);
  measure_scan(folder, figures);
  std::filesystem::remove_all(folder);
  print(settings, figures);
  const bool ok =
      std::all_of(figures.begin(), figures.end(), [](const Figure& f) { return f.ok(); });
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) { return kvsidecar::run(argc, argv); }
