// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/file_store_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sidecar/store/segment_format.h"
#include "sidecar/store/segment_reader.h"

namespace kvsidecar {
namespace {
// Bounded so that bounce buffers suffice and loads overtake the stores that wait.
constexpr size_t kReadsActive = 64, kWritesActive = 64;
constexpr size_t kPackedWritesActive = 1024;
constexpr size_t kWritersMax = 64;
constexpr uint32_t kRingEntries = 128;
}  // namespace

FileStore::State::State(const FileStoreOptions& given, Clock& given_clock,
                        FaultPoints& given_faults, StoreLog log, NodeFolder given_folder)
    : options(given),
      clock(given_clock),
      faults(given_faults),
      folder(std::move(given_folder)),
      parts{.clock = given_clock, .log = std::move(log)},
      bounce(given.bounce_memory),
      breaker(given.breaker),
      commands(given.queue_capacity),
      done(given.queue_capacity),
      registrations(4096) {
  parts.node = folder.node();
  parts.folder = folder.path();
  parts.folder_fd = folder.fd();
  parts.epoch = folder.epoch();
  parts.segment_bytes = options.segment_bytes;
  parts.stripe_bytes = options.stripe_bytes;
  parts.capacity_bytes = options.capacity_bytes;
  parts.late_lengths = options.late_lengths;
  parts.door = options.door;
  parts.bounce = &bounce;
  parts.counters = &counters;
  parts.io_ended = [this](bool was_write, int error) { io_ended(was_write, error); };
}

FileStore::State::~State() {
  if (options.door != nullptr && probe_state == Probe::kOpen)
    options.door->close(std::move(probe_file));
}

Status FileStore::State::open_ring(int event_fd) {
  std::unique_ptr<Uring> ring;
  auto made = faults.fail("store.uring") == 0
                  ? Uring::create(kRingEntries, event_fd)
                  : Result<std::unique_ptr<Uring>>(Status(Code::kUnavailable, "fault injected"));
  if (made)
    ring = made.take();
  else
    parts.log(StoreLogLevel::kWarning, "store_uring",
              made.status().text() +
                  ". The store goes on with blocking I/O, which is slower, and "
                  "can't tell a stalled disk");
  counters.uring.store(ring != nullptr, std::memory_order_relaxed);
  io = std::make_unique<IoQueue>(std::move(ring), clock, faults, parts.log);
  io->use_path(options.path);
  parts.io = io.get();
  files = std::make_unique<SegmentFiles>(parts);
  parts.files = files.get();
  tombstones = std::make_unique<Tombstones>(parts);
  probe_direct();
  if (!probe_file)
    return os_error("store folder " + folder.path() + ": making the probe file", errno,
                    Code::kInvalid);
  counters.direct.store(io->direct(), std::memory_order_relaxed);
  counters.registered.store(io->has_ring() && options.path == nullptr, std::memory_order_relaxed);
  if (options.path == nullptr) (void)registrations.try_push(bounce.memory());
  return {};
}

// Probes go the way that pages go: through the door first.
void FileStore::State::open_probe() {
  if (closing || probe_state != Probe::kClosed) return;
  probe_state = Probe::kOpening;
  if (options.door == nullptr) {
    probe_state = Probe::kOpen;
    return;
  }
  options.door->opened(probe_file.get(), [this](int error) {
    probe_state = error == 0 ? Probe::kOpen : Probe::kFailed;
    if (error != 0) io_ended(false, error);
  });
}

// Whether O_DIRECT works here is found by doing it.
void FileStore::State::probe_direct() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  // What goes by another path passes the kernel's cache by anyhow.
  if (options.path != nullptr)
    return probe_file.reset(::openat(folder.fd(), "probe", kFlags, 0600));
  auto block = bounce.take(kBlockBytes);
  std::memset(block.get(), 0, kBlockBytes);
  int error = faults.fail("store.direct");
  if (error == 0) {
    probe_file.reset(::openat(folder.fd(), "probe", kFlags | O_DIRECT, 0600));
    const bool works = probe_file &&
                       ::pwrite(probe_file.get(), block.get(), kBlockBytes, 0) == kBlockBytes &&
                       ::pread(probe_file.get(), block.get(), kBlockBytes, 0) == kBlockBytes;
    if (works) return io->set_direct(true);
    error = errno;
  }
  parts.log(StoreLogLevel::kWarning, "store_direct",
            "store folder " + folder.path() + ": O_DIRECT does not work here (" +
                std::strerror(error) + "); the store uses buffered I/O");
  probe_file.reset(::openat(folder.fd(), "probe", kFlags, 0600));
}

bool FileStore::State::admit_reads(std::deque<StoreCommand>& queue, size_t active_max) {
  bool did = false;
  // What never ends mustn't keep the others out.
  while (!queue.empty() && (reads_active < active_max + io->quarantined() || !breaker.closed())) {
    StoreCommand command = std::move(queue.front());
    queue.pop_front();
    read(std::move(command));
    did = true;
  }
  return did;
}

bool FileStore::State::admit() {
  bool did = admit_reads(loads, kReadsActive);
  // Half of the places stay free for a read that somebody waits for.
  did = admit_reads(prefetches, kReadsActive / 2) || did;
  while (!stores.empty()) {
    StoreCommand& front = stores.front();
    if (front.op == StoreOp::kWrite && breaker.closed()) {
      const bool packed = front.page_bytes < kPackedBytes;
      if (writes_active >= (packed ? kPackedWritesActive : kWritesActive)) break;
    }
    StoreCommand command = std::move(front);
    stores.pop_front();
    did = true;
    switch (command.op) {
      case StoreOp::kWrite:
        write(std::move(command));
        break;
      case StoreOp::kDelete:
        erase(command);
        break;
      case StoreOp::kUnlink:
        unlink(command);
        break;
      case StoreOp::kFlush:
        flush(command);
        break;
      case StoreOp::kScan:
        scan(command);
        break;
      case StoreOp::kRead:
        KV_CHECK(false);
    }
  }
  return did;
}

void FileStore::State::read(StoreCommand&& command) {
  const uint64_t token = command.token;
  KV_CHECK(reinterpret_cast<uintptr_t>(command.page) % kBlockBytes == 0);
  if (!breaker.closed())
    return report(
        {.op = StoreOp::kRead, .token = token, .status = Code::kIoError, .breaker_open = true});
  ++reads_active;
  read_page(parts, std::move(command),
            [this, token](Code status, std::unique_ptr<PageRecord> record) {
              --reads_active;
              report({.op = StoreOp::kRead,
                      .token = token,
                      .status = status,
                      .breaker_open = !breaker.closed(),
                      .record = std::move(record)});
            });
}

SegmentWriter& FileStore::State::writer(const StoreCommand& command) {
  const WriterKey key{command.record->namespace_id, command.record->generation};
  auto& found = writers[key];
  if (found != nullptr) return *found;
  found = std::make_unique<SegmentWriter>(parts, command.space->encoded, key.second,
                                          command.space->page_bytes);
  SegmentWriter& made = *found;
  // Older generations of the namespace take no more pages; beyond the limit the one that was used
  // longest ago gives its open segment up.
  std::map<WriterKey, std::unique_ptr<SegmentWriter>>::iterator oldest = writers.end();
  for (auto at = writers.begin(); at != writers.end();) {
    if (at->second.get() == &made) {
      ++at;
    } else if (at->second->finished()) {
      at = writers.erase(at);
    } else {
      if (at->first.first == key.first && at->first.second < key.second) at->second->seal();
      if (oldest == writers.end() || at->second->last_use_ns() < oldest->second->last_use_ns())
        oldest = at;
      ++at;
    }
  }
  if (writers.size() > kWritersMax && oldest != writers.end()) oldest->second->seal();
  return made;
}

void FileStore::State::write(StoreCommand&& command) {
  KV_CHECK(command.space != nullptr && command.record != nullptr && command.page != nullptr);
  KV_CHECK(reinterpret_cast<uintptr_t>(command.page) % kBlockBytes == 0);
  KV_CHECK(command.page_bytes == command.space->page_bytes && command.page_bytes > 0);
  const uint64_t token = command.token;
  if (!breaker.closed())
    return report({.op = StoreOp::kWrite, .token = token, .status = Code::kNotStored});
  ++writes_active;
  const uint64_t number = ++write_number;
  unreported_writes.emplace(number, true);
  auto pending = std::make_unique<PendingWrite>();
  SegmentWriter& to = writer(command);
  pending->command = std::move(command);
  pending->done = [this, token, number](Code status, StoreLocation location, uint64_t slot_bytes) {
    --writes_active;
    unreported_writes.erase(number);
    report({.op = StoreOp::kWrite,
            .token = token,
            .status = status,
            .location = location,
            .slot_bytes = slot_bytes});
  };
  to.write(std::move(pending));
}

void FileStore::State::erase(const StoreCommand& command) {
  const uint64_t token = command.token;
  const StoreLocation page = command.location;
  const SegmentFilePtr file = files->find(page.segment);
  if (file == nullptr || !file->slots.find(page.slot).has_value())
    return report({.op = StoreOp::kDelete, .token = token, .status = Code::kMiss});
  if (!breaker.closed())
    return report({.op = StoreOp::kDelete, .token = token, .status = Code::kIoError});
  const Hash128 hash = command.record == nullptr ? Hash128{} : command.record->hash;
  tombstones->add(page, hash, command.durable, [this, token, page, file](Code status) {
    if (status == Code::kOk) file->slots.clear(page.slot);
    const Code answer = status == Code::kOk ? Code::kOk : Code::kIoError;
    report({.op = StoreOp::kDelete, .token = token, .status = answer});
  });
}

void FileStore::State::unlink(const StoreCommand& command) {
  const uint64_t token = command.token, segment = command.location.segment;
  const auto ended = [this, token](int error) {
    const Code status = error == 0 ? Code::kOk : error == ENOENT ? Code::kMiss : Code::kIoError;
    report({.op = StoreOp::kUnlink, .token = token, .status = status});
  };
  if (tombstones->is_carrier(segment)) return tombstones->unlink_carrier(segment, ended);
  for (auto& [key, writer] : writers)
    if (writer->owns(segment)) writer->seal();
  tombstones->target_unlinked(segment);
  files->unlink(segment, ended);
}

void FileStore::State::flush(const StoreCommand& command) {
  auto flush = std::make_shared<Flush>();
  flush->token = command.token;
  flush->upto = write_number;
  flushes.push_back(std::move(flush));
}

void FileStore::State::turn_flushes() {
  for (size_t i = 0; i < flushes.size();) {
    const auto flush = flushes[i];
    const bool written =
        unreported_writes.empty() || unreported_writes.begin()->first > flush->upto;
    if (!flush->syncing && written) {
      flush->syncing = true;
      flush->syncs_left = 1;  // this turn's own, so that it can't end before all are asked
      const auto each = [flush](int error) {
        flush->failed = flush->failed || error != 0;
        --flush->syncs_left;
      };
      for (auto& [key, writer] : writers) writer->sync(each, flush->syncs_left);
      tombstones->sync(each, flush->syncs_left);
      --flush->syncs_left;
    }
    if (!flush->syncing || flush->syncs_left > 0) {
      ++i;
      continue;
    }
    report({.op = StoreOp::kFlush,
            .token = flush->token,
            .status = flush->failed ? Code::kIoError : Code::kOk});
    flushes.erase(flushes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void FileStore::State::scan(const StoreCommand& command) {
  const uint64_t token = command.token;
  scans.push_back(std::make_unique<SegmentScan>(
      parts, *tombstones,
      [this, token](std::unique_ptr<FoundSegment> segment) {
        report(
            {.op = StoreOp::kScan, .found = true, .token = token, .segment = std::move(segment)});
      },
      [this, token](int error) {
        report({.op = StoreOp::kScan,
                .token = token,
                .status = error == 0 ? Code::kOk : Code::kIoError});
      }));
}

void FileStore::State::io_ended(bool was_write, int error) {
  const uint64_t now_ns = clock.now_ns();
  if (error == 0) {
    (void)breaker.succeeded(now_ns);
    return;
  }
  auto& errors = was_write ? counters.write_errors : counters.read_errors;
  errors.fetch_add(1, std::memory_order_relaxed);
  // A full disk answers at once and still reads well.
  if (error == ENOSPC || error == EDQUOT) {
    counters.no_space.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (error == ECANCELED) return;  // the breaker's own doing
  if (options.on_error) options.on_error(error);
  parts.log(StoreLogLevel::kWarning, was_write ? "store_write" : "store_read",
            "store " + folder.path() + (was_write ? ": a write" : ": a read") +
                " failed: " + std::strerror(error));
  trip_due = breaker.failed(now_ns) || trip_due;
}

void FileStore::State::tripped() {
  counters.breaker_trips.fetch_add(1, std::memory_order_relaxed);
  counters.breaker_open.store(true, std::memory_order_relaxed);
  parts.log(StoreLogLevel::kError, "store_breaker",
            "store " + folder.path() +
                " does not answer or fails; its pages are misses until a "
                "probe succeeds");
  io->fail_waiting(ECANCELED);
  for (auto& [key, writer] : writers) writer->fail_waiting();
  tombstones->fail_waiting();
}

bool FileStore::State::turn_breaker(uint64_t now_ns) {
  if (std::exchange(trip_due, false) || breaker.watch(now_ns, io->oldest_ns())) {
    tripped();
    return true;
  }
  if (closing || !breaker.probe_due(now_ns)) return false;
  probe();
  return true;
}

// A block is written to the folder's probe file and read back.
void FileStore::State::probe() {
  if (probe_state == Probe::kFailed) probe_state = Probe::kClosed;  // the next turn opens it again
  if (probe_state != Probe::kOpen) return probe_ended(EAGAIN);      // and the next probe uses it
  std::shared_ptr<std::byte> block(bounce.take(kBlockBytes));
  std::memset(block.get(), 0, kBlockBytes);
  const int fd = probe_file.get();
  io->start_probe(make_transfer(
      IoKind::kWrite, fd, 0, block.get(), kBlockBytes, [this, block, fd](int64_t result) {
        if (result < 0) return probe_ended(static_cast<int>(-result));
        io->start_probe(make_transfer(IoKind::kRead, fd, 0, block.get(), kBlockBytes,
                                      [this, block](int64_t second) {
                                        probe_ended(second < 0 ? static_cast<int>(-second) : 0);
                                      }));
      }));
}

void FileStore::State::probe_ended(int error) {
  // A full disk may not take the block, but it answered.
  const bool ok = error == 0 || error == ENOSPC || error == EDQUOT;
  if (!breaker.probed(clock.now_ns(), ok)) return;
  counters.breaker_open.store(false, std::memory_order_relaxed);
  parts.log(StoreLogLevel::kInfo, "store_breaker",
            "store " + folder.path() + " answers again; it is back in use");
}

}  // namespace kvsidecar
