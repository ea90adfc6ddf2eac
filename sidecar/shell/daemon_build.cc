// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "sidecar/shell/allow_rules.h"
#include "sidecar/shell/daemon_parts.h"
#include "sidecar/shell/log.h"

namespace kvsidecar {
namespace {

constexpr size_t kCopyQueue = 1024, kHashQueue = 1024, kReaperQueue = 1024, kDoorQueue = 128;
constexpr uint64_t kScanGraceNs = 10'000'000'000;

Result<UniqueFd> take_signals() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGHUP);  // the terminal went; under nohup it is ignored and stays so
  if (::sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return os_error("sigprocmask", errno);
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return os_error("signalfd", errno);
  return fd;
}

// A session takes about ten descriptors; the usual soft limit of 1024 is a hundred sessions.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<ChunkPlan> plan_pool(Config& config) {
  ChunkPlan plan;
  plan.directory = config.pool_directory;
  plan.pool = config.pool_name;
  plan.chunk_bytes = config.chunk_bytes;
  if (config.pool_bytes == kAuto) {
    const Result<uint64_t> free = free_bytes(plan);
    if (!free) return free.status();
    config.pool_bytes = *free / 2 / plan.chunk_bytes * plan.chunk_bytes;
    if (config.pool_bytes == 0)
      return invalid("host_pool.bytes = \"auto\" is half of the " + std::to_string(*free) +
                     " bytes that are free in " + plan.directory +
                     ", which is less than one host_pool.chunk_bytes = " +
                     std::to_string(plan.chunk_bytes) + "; free memory or make chunks smaller");
  }
  plan.pool_bytes = config.pool_bytes;
  if (Status status = check_plan(plan); !status.ok()) return status;
  if (Status status = check_unclaimed(plan); !status.ok()) return status;
  if (Status status = remove_leftovers(plan); !status.ok()) return status;
  return plan;
}

}  // namespace

Status Daemon::State::claim_directories() {
  Result<RuntimeDir> runtime = RuntimeDir::claim(config.runtime_dir);
  if (!runtime) return runtime.status();
  runtime_dir.emplace(runtime.take());
  Result<StateDir> opened = StateDir::open(config.state_dir, clock, faults);
  if (!opened) return opened.status();
  state_dir.emplace(opened.take());
  records.emplace(*state_dir);
  const Result<uint64_t> next = state_dir->next_epoch();
  if (!next) return next.status();
  epoch = *next;
  progress.bump();
  return {};
}

Status Daemon::State::build_workers() {
  device = std::make_unique<HostDevice>(random.next(), faults);
  for (uint32_t i = 0; i < config.copy_threads; ++i)
    copy_workers.push_back(std::make_unique<CopyWorker>(*device, clock, kCopyQueue, &waker));
  if (config.limits.inline_copy_bytes > 0)
    inline_copy = std::make_unique<CopyWorker>(*device, clock, kCopyQueue, nullptr);
  for (uint32_t i = 0; i < config.hash_threads; ++i)
    hash_workers.push_back(std::make_unique<HashWorker>(kHashQueue, &waker));
  reaper = std::make_unique<Reaper>(kReaperQueue, &waker);
  device_reaper = std::make_unique<Reaper>(kReaperQueue, &waker);
  door_reaper = std::make_unique<Reaper>(kDoorQueue, &waker);
  chunk_reaper = std::make_unique<Reaper>(2, &waker);
  Result<OpenedStore> opened = open_store(config, clock, faults, &waker);
  if (!opened) return opened.status();
  store = opened.take();
  progress.bump();
  return {};
}

Status Daemon::State::build_conductor(ListeningSocket socket) {
  Result<ChunkPlan> plan = plan_pool(config);
  if (!plan) return plan.status();
  uint64_t secret = 0;
  random_bytes(std::as_writable_bytes(std::span(&secret, 1)));
  pool = std::make_unique<HostPool>(epoch, config.span_bytes, secret);
  Parts parts;
  parts.clock = &clock;
  parts.random = &random;
  parts.device = device.get();
  for (const auto& worker : copy_workers) parts.copy_workers.push_back(worker.get());
  parts.inline_copy = inline_copy.get();
  for (const auto& worker : hash_workers) parts.hash_workers.push_back(worker.get());
  parts.reaper = reaper.get();
  parts.device_reaper = device_reaper.get();
  parts.store = store.store.get();
  parts.namespaces = &*records;
  parts.pool = pool.get();
  Limits limits = config.limits;
  limits.chunk_bytes = config.chunk_bytes;
  conductor = std::make_unique<Conductor>(parts, limits, epoch, event_log);

  size_t damaged = 0;
  Result<std::vector<StateDir::SavedNamespace>> saved = state_dir->load_namespaces(damaged);
  if (!saved) return saved.status();
  if (damaged > 0)
    log_event(LogLevel::kError, "namespaces_damaged",
              {{"state_dir", config.state_dir}, {"files", damaged}});
  for (const auto& space : *saved) conductor->restore_namespace(space.encoded, space.generation);
  if (store.store) conductor->scan_store();
  progress.bump();

  chunks = std::make_unique<ChunkOpener>(*plan, *chunk_reaper, clock, faults,
                                         [this](const Chunk& chunk) {
                                           if (store.register_memory)
                                             store.register_memory(chunk.path, chunk.memory);
                                           conductor->add_chunk(chunk.memory, chunk.existed);
                                         });
  sessions = std::make_unique<ConductorSessions>(*conductor);
  ListenerOptions options;
  options.epoch = epoch;
  options.node = state_dir->node();
  listener = std::make_unique<Listener>(std::move(socket), options,
                                        AllowRules(config.allow, ::geteuid(), client_group()),
                                        *sessions, *door_reaper, clock);
  listener->also_wait_for(waker.fd());
  listener->also_wait_for(signals.get());
  return {};
}

Status Daemon::State::start_http() {
  if (config.metrics_listen.empty()) return {};
  metrics.set_counters(&conductor->counters(), store.counters, store.usrbio);
  leave_snapshot();
  const uint64_t scan_until_ns = clock.now_ns() + kScanGraceNs;
  std::map<std::string, HttpServer::Handler> handlers;
  handlers["/metrics"] = [this] {
    return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics.text()};
  };
  handlers["/healthz"] = [] { return HttpResponse{200, "text/plain", "ok\n"}; };
  handlers["/readyz"] = [this, scan_until_ns]() -> HttpResponse {
    const MetricsSnapshot now = metrics.snapshot();
    const bool scanned = now.gauges.scanned || clock.now_ns() >= scan_until_ns;
    if (now.gauges.draining) return {503, "text/plain", "draining\n"};
    if (!now.reachable)
      return {503, "text/plain", "the socket's path is gone: restart kvsidecard\n"};
    if (now.chunks == 0) return {503, "text/plain", "no chunk of the host pool is in yet\n"};
    if (!scanned) return {503, "text/plain", "the store is being scanned\n"};
    return {200, "text/plain", "ready\n"};
  };
  Result<std::unique_ptr<HttpServer>> started =
      HttpServer::start(config.metrics_listen, std::move(handlers));
  if (!started) return started.status();
  http = started.take();
  return {};
}

void Daemon::State::start_threads() {
  const auto start = [this](Worker& worker, const std::string& name) {
    threads.push_back(std::make_unique<WorkerThread>(worker, name));
  };
  for (size_t i = 0; i < copy_workers.size(); ++i)
    start(*copy_workers[i], "kvs-copy" + std::to_string(i));
  for (size_t i = 0; i < hash_workers.size(); ++i)
    start(*hash_workers[i], "kvs-hash" + std::to_string(i));
  start(*reaper, "kvs-reaper");
  start(*device_reaper, "kvs-dev-reaper");
  start(*door_reaper, "kvs-door");
  chunk_thread = std::make_unique<WorkerThread>(*chunk_reaper, "kvs-chunks");
  if (store.store) start(*store.store, "kvs-store");
}

Result<std::unique_ptr<Daemon>> Daemon::build(const Config& config, Progress progress) {
  auto state = std::make_unique<State>();
  state->config = config;
  state->progress = progress;
  set_log_level(config.log_level);
  raise_descriptor_limit();
  Result<UniqueFd> signals = take_signals();
  if (!signals) return signals.status();
  state->signals = signals.take();
  start_log_thread();
  if (Status status = state->claim_directories(); !status.ok()) return status;
  // Before any thread: opening the socket sets the umask for a moment.
  Result<ListeningSocket> socket = ListeningSocket::open(config.socket, client_group());
  if (!socket) return socket.status();
  if (Status status = state->build_workers(); !status.ok()) return status;
  if (Status status = state->build_conductor(socket.take()); !status.ok()) return status;
  if (Status status = state->start_http(); !status.ok()) return status;
  state->start_threads();
  const bool automatic = config.spin_ns == kAuto;
  state->idle.emplace(automatic ? IdlePolicy::kAutomaticSpinNs : config.spin_ns, automatic);
  return std::unique_ptr<Daemon>(new Daemon(std::move(state)));
}

}  // namespace kvsidecar
