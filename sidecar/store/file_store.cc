// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/file_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sidecar/store/file_store_state.h"
#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kCloseWaitNs = 20'000'000;

void warn_about_capacity(const FileStoreOptions& options, const StoreLog& log) {
  struct statvfs facts {};
  if (options.capacity_bytes == 0 || ::statvfs(options.root.c_str(), &facts) != 0) return;
  const uint64_t total = uint64_t{facts.f_blocks} * facts.f_frsize;
  if (options.capacity_bytes <= total) return;
  log(StoreLogLevel::kWarning, "store_capacity",
      "store root " + options.root + ": the capacity of " + std::to_string(options.capacity_bytes) +
          " bytes is more than the file system's " + std::to_string(total) +
          "; lower it, or pages will be refused when the file system is full");
}

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(const FileStoreOptions& options, Clock& clock,
                                                   FaultPoints& faults, StoreLog log) {
  if (!log) log = [](StoreLogLevel, std::string_view, const std::string&) {};
  if (options.segment_bytes < kBlockBytes || options.segment_bytes > (64ull << 30))
    return invalid("store segment_bytes is " + std::to_string(options.segment_bytes) +
                   "; it must be from 4 KiB to 64 GiB");
  if (options.stripe_bytes % kBlockBytes != 0)
    return invalid("store stripe_bytes is " + std::to_string(options.stripe_bytes) +
                   "; it must be a multiple of 4096, or 0");
  auto folder =
      NodeFolder::claim(options.root, options.state_directory, options.number, options.root_fd);
  if (!folder) return folder.status();
  warn_about_capacity(options, log);
  std::unique_ptr<FileStore> store(new FileStore(
      std::make_unique<State>(options, clock, faults, std::move(log), folder.take())));
  Status status =
      store->state_->open_ring(options.event_fd >= 0 ? options.event_fd : store->waker().fd());
  if (!status.ok()) return status;
  return store;
}

FileStore::FileStore(std::unique_ptr<State> state) : state_(std::move(state)) {}

FileStore::~FileStore() {
  if (state_->io == nullptr || state_->close(waker())) return;
  (void)state_.release();  // the kernel may still use its memory and write into its folder
}

bool FileStore::submit(StoreCommand&& command) {
  if (state_->outstanding >= state_->options.queue_capacity) return false;
  if (!state_->commands.try_push(std::move(command))) return false;
  ++state_->outstanding;
  waker().wake();
  return true;
}

bool FileStore::poll(StoreDone& done) {
  if (!state_->done.try_pop(done)) return false;
  if (!done.found) --state_->outstanding;
  if (state_->backlogged.load(std::memory_order_acquire)) waker().wake();
  return true;
}

bool FileStore::register_memory(std::span<std::byte> memory) {
  if (!state_->registrations.try_push(std::move(memory))) return false;
  waker().wake();
  return true;
}

bool FileStore::has_done() const { return !state_->done.empty(); }

std::string FileStore::describe() const {
  const bool direct = state_->counters.direct.load(std::memory_order_relaxed);
  return std::string("file (") + (direct ? "O_DIRECT" : "buffered") +
         (state_->counters.uring.load(std::memory_order_relaxed) ? "" : ", no io_uring") +
         (state_->options.why.empty() ? ")" : "; " + state_->options.why + ")");
}

uint64_t FileStore::used_bytes() const {
  return state_->counters.used_bytes.load(std::memory_order_relaxed);
}

uint64_t FileStore::wanted_bytes() const {
  return wanted_bytes(state_->counters, state_->options.segment_bytes,
                      state_->parts.capacity_bytes);
}

uint64_t FileStore::wanted_bytes(const StoreCounters& counters, uint64_t segment_bytes,
                                 uint64_t capacity_bytes) {
  // Some in advance, so that the next segment need not wait.
  const uint64_t next = segment_bytes + segment_bytes / 8;
  return std::max(counters.wanted_bytes.load(std::memory_order_relaxed),
                  std::min(next, capacity_bytes / 8)) +
         kept_for_tombstones(capacity_bytes);
}

void FileStore::set_capacity(uint64_t bytes) { state_->parts.capacity_bytes = bytes; }

const StoreCounters& FileStore::counters() const { return state_->counters; }
const std::string& FileStore::folder() const { return state_->folder.path(); }

bool FileStore::has_work() {
  State& s = *state_;
  if (!s.commands.empty() || !s.registrations.empty() || s.io->has_completion()) return true;
  return !s.backlog.empty() && s.done.room() > 0;
}

bool FileStore::turn() { return state_->turn(); }

uint64_t FileStore::wait_ns(uint64_t now_ns) {
  return state_->io->in_flight() == 0 ? 0 : state_->io->wait_ns(now_ns);
}

UniqueFd FileStore::take_claim() { return state_->folder.take_claim(); }
int FileStore::folder_fd() const { return state_->folder.fd(); }

int FileStore::probe_fd() const {
  return state_->probe_state == State::Probe::kOpen ? state_->probe_file.get() : -1;
}

void FileStore::trip() {
  if (state_->breaker.trip(state_->clock.now_ns())) state_->tripped();
}

void FileStore::wind_up() { state_->wind_up(); }
bool FileStore::ended() const {
  const State& s = *state_;
  return s.closing && s.quiet() && s.backlog.empty() && s.done.empty();
}

bool FileStore::step() {
  if (state_->turn()) return true;
  const uint64_t nap_ns = wait_ns(state_->clock.now_ns());
  if (nap_ns == 0) return false;
  // Only I/O is out: its completion, or a command, signals the waker's eventfd.
  waker().announce();
  if (!has_work()) waker().sleep(nap_ns);
  waker().retire();
  return has_work();
}

bool FileStore::State::turn() {
  reported = false;
  const uint64_t now_ns = clock.now_ns();
  register_waiting();
  open_probe();
  bool did = take_commands();
  did = io->turn() || did;
  did = turn_breaker(now_ns) || did;
  did = admit() || did;
  for (auto& [key, writer] : writers) writer->turn(now_ns, closing);
  tombstones->turn(now_ns, closing);
  turn_flushes();
  for (auto& scan : scans) scan->turn(backlog.size() > 64);
  std::erase_if(scans, [](const auto& scan) { return scan->ended(); });
  // What the pieces have just asked for goes to the kernel in the same turn.
  did = io->turn() || did;
  drain_backlog();
  counters.direct.store(io->direct(), std::memory_order_relaxed);
  if (reported && options.done_waker != nullptr) options.done_waker->wake();
  return did || reported;
}

bool FileStore::State::take_commands() {
  bool did = false;
  StoreCommand command;
  while (commands.try_pop(command)) {
    did = true;
    auto& queue = command.op != StoreOp::kRead ? stores : command.prefetch ? prefetches : loads;
    queue.push_back(std::move(command));
  }
  return did;
}

void FileStore::State::report(StoreDone&& result) {
  reported = true;
  if (backlog.empty() && done.try_push(std::move(result))) return;
  backlog.push_back(std::move(result));
  backlogged.store(true, std::memory_order_release);
}

void FileStore::State::drain_backlog() {
  while (!backlog.empty() && done.try_push(std::move(backlog.front()))) {
    backlog.pop_front();
    reported = true;
  }
  if (backlog.empty()) backlogged.store(false, std::memory_order_release);
}

void FileStore::State::register_waiting() {
  std::span<std::byte> memory;
  while (registrations.try_pop(memory)) {
    if (memory_refused || !io->has_ring()) continue;
    const Status status = io->register_memory(memory);
    if (status.ok()) continue;
    memory_refused = true;
    counters.registered.store(false, std::memory_order_relaxed);
    parts.log(StoreLogLevel::kInfo, "store_memlock",
              "store: memory can't be registered with io_uring (" + status.text() +
                  "); I/O goes on without. Raise RLIMIT_MEMLOCK (LimitMEMLOCK=infinity) to use it");
  }
}

bool FileStore::State::quiet() const {
  if (!io->idle() || reads_active > 0 || writes_active > 0 || !loads.empty() ||
      !prefetches.empty() || !stores.empty() || probe_state == Probe::kOpening)
    return false;
  for (const auto& [key, writer] : writers)
    if (!writer->finished()) return false;
  return tombstones->finished() && scans.empty() && flushes.empty();
}

// Commands that were not started are reported; what was started ends.
void FileStore::State::wind_up() {
  closing = true;
  (void)take_commands();
  for (auto* queue : {&loads, &prefetches, &stores}) {
    for (const StoreCommand& command : *queue) report(refused(command));
    queue->clear();
  }
  for (auto& [key, writer] : writers) {
    writer->fail_waiting();
    writer->seal();
  }
  tombstones->fail_waiting();
  tombstones->seal();
  for (auto& scan : scans) scan->stop();
}

// Nobody polls any more.
bool FileStore::State::close(Waker& waker) {
  const uint64_t deadline_ns = clock.now_ns() + options.close_ns;
  if (!closing) wind_up();
  while (!quiet() && clock.now_ns() < deadline_ns) {
    backlog.clear();
    StoreDone dropped;
    while (done.try_pop(dropped)) {
    }
    if (turn()) continue;
    waker.announce();
    const uint64_t nap_ns = io->oldest_ns() == 0 ? kCloseWaitNs : io->wait_ns(clock.now_ns());
    if (!io->has_completion()) waker.sleep(nap_ns);
    waker.retire();
  }
  if (quiet()) return true;
  parts.log(StoreLogLevel::kError, "store_close",
            "store " + folder.path() + ": " + std::to_string(io->in_flight()) +
                " operations did not end within the closing time and are given up");
  return false;
}

}  // namespace kvsidecar
