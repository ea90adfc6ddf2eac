// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/usrbio_store.h"

#include <sys/prctl.h>

#include <algorithm>

#include "sidecar/store/usrbio/usrbio_store_state.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kInternalScan = ~uint64_t{0};
constexpr size_t kInternalCommands = 8;  // beside the conductor's

}  // namespace

UsrbioStore::State::State(const UsrbioStoreOptions& given, Clock& given_clock,
                          FaultPoints& given_faults, StoreLog given_log, Waker& given_waker)
    : options(given),
      clock(given_clock),
      faults(given_faults),
      log(std::move(given_log)),
      waker(given_waker),
      thread(given_waker, given.own_thread),
      capacity(given.files.queue_capacity),
      done_waker(given.files.done_waker),
      commands(given.files.queue_capacity),
      done(given.files.queue_capacity),
      new_regions(4096) {
  options.files.queue_capacity += kInternalCommands;
  options.files.done_waker = nullptr;
  options.files.event_fd = waker.fd();
  options.files.on_error = [this](int error) {
    if (error == ENOTCONN) next_beat_ns = 0;
  };
  backoff_ns = options.reopen_ns;
  describe("not mounted yet");
}

UsrbioStore::UsrbioStore(const UsrbioStoreOptions& options, Clock& clock, FaultPoints& faults,
                         StoreLog log)
    : state_(std::make_unique<State>(options, clock, faults, std::move(log), waker())) {}

UsrbioStore::~UsrbioStore() {
  if (!state_->close()) (void)state_.release();  // its memory is still worked on
}

Result<std::unique_ptr<UsrbioStore>> UsrbioStore::open(const UsrbioStoreOptions& options,
                                                       Clock& clock, FaultPoints& faults,
                                                       StoreLog log) {
  if (!log) log = [](StoreLogLevel, std::string_view, const std::string&) {};
  if (options.files.stripe_bytes == 0 || options.files.stripe_bytes % 4096 != 0)
    return invalid("store.usrbio.chunk_bytes must be a multiple of 4096, and not 0");
  sweep_shared_blocks(options.shm_directory, options.pool);
  std::unique_ptr<UsrbioStore> store(new UsrbioStore(options, clock, faults, std::move(log)));
  State& s = *store->state_;
  s.start_open();
  const uint64_t until_ns = clock.now_ns() + options.open_wait_ns;
  while (s.opening) {
    if (!options.own_thread) s.thread.run_one();
    if (s.thread.poll() || !s.opening) continue;
    if (clock.now_ns() > until_ns)
      return Status(Code::kUnavailable, "the 3FS mount of store.root = \"" + options.files.root +
                                            "\" does not answer; look after its fuse daemon, or "
                                            "set store.kind = \"file\" or \"none\"");
    store->waker().announce();
    if (!s.thread.has_done()) store->waker().sleep(1'000'000);
    store->waker().retire();
  }
  if (s.life.mounted == nullptr) return s.open_failure;
  return store;
}

bool UsrbioStore::submit(StoreCommand&& command) {
  if (state_->outstanding >= state_->capacity) return false;
  if (!state_->commands.try_push(std::move(command))) return false;
  ++state_->outstanding;
  waker().wake();
  return true;
}

bool UsrbioStore::poll(StoreDone& done) {
  if (!state_->done.try_pop(done)) return false;
  if (!done.found) --state_->outstanding;
  if (state_->more_done.load(std::memory_order_acquire)) waker().wake();
  return true;
}

bool UsrbioStore::register_memory(const std::string& path, std::span<std::byte> memory) {
  if (!state_->new_regions.try_push({path, memory})) return false;
  waker().wake();
  return true;
}

bool UsrbioStore::has_done() const { return !state_->done.empty(); }
std::string UsrbioStore::describe() const { return *state_->described.load(); }
const StoreCounters& UsrbioStore::counters() const { return state_->counters; }
const UsrbioCounters& UsrbioStore::usrbio_counters() const { return state_->usrbio; }
const std::string& UsrbioStore::folder() const { return state_->folder; }
MountThread& UsrbioStore::mount_thread() { return state_->thread; }
bool UsrbioStore::has_work() { return state_->has_work(); }

uint64_t UsrbioStore::used_bytes() const {
  return state_->counters.used_bytes.load(std::memory_order_relaxed);
}

uint64_t UsrbioStore::wanted_bytes() const {
  const FileStoreOptions& files = state_->options.files;
  return FileStore::wanted_bytes(state_->counters, files.segment_bytes, files.capacity_bytes);
}

void UsrbioStore::set_capacity(uint64_t bytes) {
  state_->options.files.capacity_bytes = bytes;
  state_->life.mounted->files->set_capacity(bytes);
}

bool UsrbioStore::step() {
  // A nap of 20 us becomes one of 70 by the kernel's usual slack.
  thread_local const int slack = ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  (void)slack;
  if (state_->turn()) return true;
  const uint64_t nap_ns = state_->wait_ns();
  if (nap_ns == 0) return false;
  waker().announce();
  if (!has_work()) waker().sleep(nap_ns);
  waker().retire();
  return has_work();
}

uint64_t UsrbioStore::State::wait_ns() const {
  const uint64_t now_ns = clock.now_ns();
  uint64_t shortest = life.mounted == nullptr ? 0 : life.mounted->files->wait_ns(now_ns);
  for (const Life& old : winding) {
    const uint64_t wait = old.mounted->files->wait_ns(now_ns);
    if (wait != 0) shortest = shortest == 0 ? wait : std::min(shortest, wait);
  }
  return shortest;
}

bool UsrbioStore::State::has_work() {
  if (thread.has_done() || !commands.empty() || !new_regions.empty()) return true;
  if (more_done.load(std::memory_order_relaxed) && done.room() > 0) return true;
  return life.mounted != nullptr && life.mounted->files->has_work();
}

bool UsrbioStore::State::turn() {
  const uint64_t now_ns = clock.now_ns();
  bool did = thread.poll();
  did = take_regions() || did;
  did = take_commands() || did;
  drain_backlog();
  more_done.store(!backlog.empty(), std::memory_order_release);
  if (life.mounted != nullptr) {
    FileStore& files = *life.mounted->files;
    did = files.turn() || did;
    did = take_done(files, false) || did;
    prove_waiting();
    earlier.publish(files.counters(), counters);
  }
  did = turn_winding() || did;
  return watch(now_ns) || did;
}

bool UsrbioStore::State::take_commands() {
  bool did = false;
  StoreCommand command;
  while (commands.try_pop(command)) {
    did = true;
    if (command.op == StoreOp::kScan) {
      scan_token = command.token;
      scan_told.clear();
      scan_again = scanning;  // what it has found already wasn't told
      if (phase == Phase::kUp) start_scan();
    } else if (phase != Phase::kUp) {
      answer(refused(command));
      if (!backlog.empty()) more_done.store(true, std::memory_order_release);
    } else {
      KV_CHECK(life.mounted->files->submit(std::move(command)));
    }
  }
  return did;
}

void UsrbioStore::State::start_scan() {
  if (std::exchange(scanning, true)) return;
  StoreCommand command;
  command.op = StoreOp::kScan;
  command.token = kInternalScan;
  KV_CHECK(life.mounted->files->submit(std::move(command)));
}

void UsrbioStore::State::answer(StoreDone&& result) {
  if (!backlog.empty() || !done.try_push(std::move(result))) backlog.push_back(std::move(result));
  if (done_waker != nullptr) done_waker->wake();
}

void UsrbioStore::State::drain_backlog() {
  while (!backlog.empty() && done.try_push(std::move(backlog.front()))) {
    backlog.pop_front();
    if (done_waker != nullptr) done_waker->wake();
  }
}

// lost: its mount is; a scan begins again on the next.
bool UsrbioStore::State::take_done(FileStore& files, bool lost) {
  bool did = false;
  StoreDone result;
  while (backlog.empty() && done.room() > 0) {
    if (!files.poll(result)) return did;
    did = true;
    if (result.op == StoreOp::kScan && !lost)
      scan_done(std::move(result));
    else if (result.op == StoreOp::kScan)
      continue;
    else
      answer(std::move(result));
  }
  more_done.store(true, std::memory_order_release);
  return did;
}

void UsrbioStore::State::scan_done(StoreDone&& result) {
  if (result.found) {
    if (!scan_token || !scan_told.insert(result.segment->segment).second) return;
    result.token = *scan_token;
    return answer(std::move(result));
  }
  scanning = false;
  if (std::exchange(scan_again, false)) return start_scan();
  if (phase == Phase::kReturning) {
    phase = Phase::kUp;
    usrbio.up.store(true, std::memory_order_relaxed);
    describe("");
    log(StoreLogLevel::kInfo, "store_mount", "store " + folder + ": 3FS is back in use");
  }
  if (!scan_token) return;
  result.token = *std::exchange(scan_token, std::nullopt);
  scan_told.clear();
  answer(std::move(result));
}

void UsrbioStore::State::describe(const std::string& state) {
  std::string text = "usrbio (";
  if (life.mounted != nullptr)
    text += life.mounted->client->describe() + ", " + life.mounted->client->mount_point();
  else
    text += "no mount";
  if (!options.why.empty()) text += "; " + options.why;
  if (!state.empty()) text += "; " + state;
  described.store(std::make_shared<const std::string>(text + ")"));
}

}  // namespace kvsidecar
