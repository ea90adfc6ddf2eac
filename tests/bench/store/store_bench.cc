// SPDX-License-Identifier: Apache-2.0
// Goal: how near the file store comes to the disk (O8-08). Method: pages of 1 MiB are written and
// read at depth 32 through a store worker, beside fio with io_uring and O_DIRECT in the same
// folder, in turns; the medians of an even number of rounds are compared. Both move the same file
// in /dev/shm, as the host pool's chunks are: how its pages happen to lie in physical memory
// decides how many pieces a transfer has, and with them half of a virtual disk's speed. Virtual
// disks are also faster in some places than in others, where a file has blocks already, and after a
// rest: both write new files, fio reads the largest file that the store wrote, and each run waits a
// second before it begins, as fio's start alone takes half of one.
// Then a folder with a million directory entries is scanned. Beside the common arguments:
// --directory DIR (where; default: here), --bytes N (of each run).
#include <fcntl.h>
#include <poll.h>
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
#include "tests/bench/support/bench_run.h"
#include "tests/bench/support/directories.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPage = 1 << 20;
// The store keeps 32 pages in flight; as many again wait, so that it needn't wait for us.
constexpr size_t kDepth = 64;
constexpr double kReach = 0.9;
constexpr int kRestMs = 1000;

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void rest() { (void)::poll(nullptr, 0, kRestMs); }

// Memory as the host pool's chunks are, touched.
class PoolFile {
 public:
  PoolFile() : path_("/dev/shm/kvsidecar-store-bench-" + std::to_string(::getpid())) {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    KV_CHECK(fd && ::ftruncate(fd.get(), kDepth * kPage) == 0);
    auto mapped = MappedMemory::map(fd.get(), 0, kDepth * kPage, Access::kReadWrite);
    KV_CHECK(mapped.ok());
    memory_ = mapped.take();
    std::memset(memory_.data(), 1, kDepth * kPage);
  }
  ~PoolFile() { (void)::unlink(path_.c_str()); }
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  const std::string& path() const { return path_; }
  std::byte* data() const { return memory_.data(); }

 private:
  std::string path_;
  MappedMemory memory_;
};

struct Settings {
  std::string directory = ".";
  uint64_t bytes = 1ull << 30;
  uint32_t rounds = 4;
  const PoolFile* pool = nullptr;
};

// GB/s that fio reports; 0 when it isn't there or fails.
double run_fio(const Settings& settings, uint64_t bytes, const std::string& file,
               const char* mode) {
  const std::string command =
      "fio --name=floor --filename=" + file + " --rw=" + mode +
      " --bs=1M --size=" + std::to_string(bytes / kPage * kPage) +
      " --iodepth=32 --ioengine=io_uring --direct=1 --fixedbufs=1 --end_fsync=1 --mem=mmapshared:" +
      settings.pool->path() + " --output-format=terse --terse-version=3 2>/dev/null";
  rest();
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

double fio_write(const Settings& settings, const std::string& folder) {
  const std::string file = folder + "/floor";
  const double rate = run_fio(settings, settings.bytes, file, "write");
  (void)::unlink(file.c_str());
  return rate;
}

double fio_read(const Settings& settings, const std::string& folder) {
  std::string largest;
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".seg" || entry.file_size() <= bytes) continue;
    largest = entry.path();
    bytes = entry.file_size();
  }
  return run_fio(settings, std::min(bytes, settings.bytes), largest, "read");
}

class Conductor {
 public:
  Conductor(const std::string& folder, const PoolFile& pool) : memory_(pool.data()) {
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
    (void)store_->register_memory({memory_, kDepth * kPage});
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
        StoreCommand command = make(started, memory_ + free.back() * kPage);
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
  std::byte* memory_;  // kDepth pages
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<WorkerThread> worker_;
};

Figure rate_figure(const char* name, const std::vector<double>& values,
                   const std::vector<double>& floors, const std::string& note) {
  Figure figure;
  figure.name = name;
  figure.value = median(values);
  figure.floor = median(floors);
  figure.unit = "GB/s";
  figure.more_is_better = true;
  figure.ratio_limit = kReach;
  figure.note = figure.floor > 0 ? note : "fio is not installed: nothing to compare with";
  return figure;
}

double gigabytes_per_s(uint64_t bytes, double seconds) {
  return seconds == 0 ? 0 : static_cast<double>(bytes) / seconds / 1e9;
}

// Seconds until all pages are written, and flushed; 0: a write failed.
double write_all(Conductor& conductor, const TestPage& page,
                 std::vector<StoreLocation>& locations) {
  rest();
  const double begin = seconds(CLOCK_MONOTONIC);
  const double written = conductor.run(
      locations.size(),
      [&](size_t, std::byte* memory) {
        StoreCommand command = page.write(0);
        command.page = memory;
        return command;
      },
      [&](size_t i, const StoreDone& done) { locations[i] = done.location; });
  conductor.flush();
  return written == 0 ? 0 : seconds(CLOCK_MONOTONIC) - begin;
}

double read_all(Conductor& conductor, const std::vector<StoreLocation>& locations) {
  rest();
  return conductor.run(
      locations.size(),
      [&](size_t i, std::byte* memory) {
        StoreCommand command;
        command.op = StoreOp::kRead;
        command.location = locations[i];
        command.page = memory;
        command.page_bytes = kPage;
        return command;
      },
      [](size_t, const StoreDone&) {});
}

void measure_pages(const Settings& settings, const std::string& folder, BenchRun& run) {
  const size_t count = settings.bytes / kPage;
  const auto space = make_namespace("bench", kPage);
  const TestPage page(*space, 1, 1);
  std::vector<double> writes, reads, fio_writes, fio_reads;
  std::string note;
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    // A disk with a budget favours whoever comes first: they take turns at that.
    const bool fio_first = round % 2 == 0;
    if (fio_first) fio_writes.push_back(fio_write(settings, folder));
    const std::string own = folder + "/round" + std::to_string(round);
    std::filesystem::create_directory(own);
    {
      Conductor conductor(own, *settings.pool);
      std::vector<StoreLocation> locations(count);
      writes.push_back(gigabytes_per_s(count * kPage, write_all(conductor, page, locations)));
      if (!fio_first) fio_writes.push_back(fio_write(settings, folder));
      if (fio_first) fio_reads.push_back(fio_read(settings, own));
      reads.push_back(gigabytes_per_s(count * kPage, read_all(conductor, locations)));
      if (!fio_first) fio_reads.push_back(fio_read(settings, own));
      note = conductor.describe();
    }
    std::filesystem::remove_all(own);
  }
  run.add(rate_figure("store, write of 1 MiB", writes, fio_writes, note));
  run.add(rate_figure("store, read of 1 MiB", reads, fio_reads, note));
}

void measure_scan(const std::string& folder, BenchRun& run) {
  constexpr uint64_t kEntries = 16 * uint64_t{kDirectoryEntriesMax};
  const std::string own = folder + "/scan";
  std::filesystem::create_directory(own);
  {
    const auto claimed = NodeFolder::claim(own, own, 0);
    KV_CHECK(claimed.ok());
    Superblock like;
    like.node = claimed->node();
    like.generation = 1;
    like.page_bytes = 4096;
    like.slot_alignment = kSlotUnit;
    like.encoded = make_namespace("bench", 4096)->encoded;
    make_directories(claimed->path(), like, uint64_t{claimed->epoch()} << 32 | 1, kEntries,
                     [](uint64_t number) {
                       return Hash128{number, 1};
                     });
  }
  FileStoreOptions options;
  options.root = options.state_directory = own;
  auto store = FileStore::open(options, real_clock(), no_faults(), nullptr);
  KV_CHECK(store.ok());
  StoreDriver driver(store.take());
  const double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t found = 0;
  for (const auto& segment : driver.scan()) found += segment->pages.size();
  const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  KV_CHECK(found == kEntries);
  Figure figure;
  figure.name = "store, scan of directories";
  figure.value = static_cast<double>(kEntries) / cpu / 1e6;
  figure.unit = "M entries per CPU second";
  figure.more_is_better = true;
  figure.value_limit = 1;
  run.add(figure);
  std::filesystem::remove_all(own);
}

int measure_all(int argc, char** argv) {
  Settings settings;
  std::string bytes;
  auto run = begin_run(argc, argv, settings.rounds,
                       {{"--directory", &settings.directory}, {"--bytes", &bytes}});
  if (!run) return 2;
  settings.rounds = run->rounds;
  if (!bytes.empty())
    settings.bytes = std::max<uint64_t>(std::strtoull(bytes.c_str(), nullptr, 10), 64 * kPage);
  settings.bytes = settings.bytes / kPage * kPage;
  const PoolFile pool;
  settings.pool = &pool;
  std::string folder = settings.directory + "/kvsidecar-store-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("store_bench: --directory");
    return 2;
  }
  if (run->wants("store, write of 1 MiB") || run->wants("store, read of 1 MiB"))
    measure_pages(settings, folder, *run);
  if (run->wants("store, scan of directories")) measure_scan(folder, *run);
  std::filesystem::remove_all(folder);
  run->print();
  return 0;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) { return kvsidecar::measure_all(argc, argv); }
