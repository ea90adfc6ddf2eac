// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/store/usrbio_bench_daemon.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <filesystem>

#include "clients/cli/account.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPatienceNs = 60'000'000'000;
constexpr int kLookMs = 5;
constexpr size_t kPutPages = 16;

std::string store_section(const std::string& root) {
  return "kind = \"usrbio\"\nroot = \"" + root +
         "\"\ncapacity_bytes = \"2GiB\"\nsegment_bytes = \"64MiB\"\n\n[store.usrbio]\n"
         "client = \"builtin\"\n";
}

}  // namespace

Result<std::unique_ptr<DaemonReads>> DaemonReads::start(const std::string& program,
                                                        const std::string& mount, size_t pages) {
  const std::string root = mount + "/daemon";
  std::error_code ignored;
  fs::create_directory(root, ignored);
  RigOptions rig;
  rig.pool_bytes = 64 * kBenchPage;
  rig.store_section = store_section(root);
  auto daemon = BenchDaemon::start(program, rig);
  if (!daemon) return daemon.status();
  auto reads = std::make_unique<DaemonReads>();
  reads->pages_ = (std::max<size_t>(pages, 448) + kBenchDepth - 1) / kBenchDepth * kBenchDepth;
  reads->daemon_ = daemon.take();
  Status status = reads->attach();
  if (status.ok()) status = reads->put(reads->pages_);
  if (!status.ok()) return status;
  return reads;
}

Status DaemonReads::attach() {
  EngineShape shape;
  shape.page_bytes = kBenchPage;
  shape.blocks = kBenchDepth;
  auto engine = BenchEngine::attach(daemon_->socket(), shape);
  if (engine) engine_ = engine.take();
  return engine.status();
}

Status DaemonReads::await_written(size_t pages) {
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (monotonic_ns() < until_ns) {
    const auto text = engine_->stat();
    const auto account = text ? parse_account(*text) : Status(Code::kUnavailable, "no account");
    if (!account) return account.status();
    if (account->count("writes_done") >= pages) return {};
    if (account->count("writes_failed") > 0)
      return {Code::kNotStored, "the daemon could not store a page of the bench"};
    (void)::poll(nullptr, 0, kLookMs);
  }
  return {Code::kTimeout, "the daemon's pages weren't stored in time"};
}

// Few at a time: one that leaves the pool before it is written is lost.
Status DaemonReads::put(size_t pages) {
  Status status;
  for (size_t i = 0; i < pages && status.ok(); i += kPutPages) {
    status = engine_->fill(i, kPutPages);
    if (status.ok()) status = await_written(i + kPutPages);
  }
  return status;
}

Result<double> DaemonReads::get(uint32_t count) {
  const size_t first = next_page_;
  next_page_ = (next_page_ + count) % pages_;
  asked_ += count;
  return engine_->get(first, count);
}

Result<double> DaemonReads::get_one() { return get(1); }

Result<Stretch> DaemonReads::get_many(size_t count) {
  next_page_ = (next_page_ + kBenchDepth - 1) / kBenchDepth * kBenchDepth % pages_;
  Stretch all;
  const double cpu = cpu_seconds();
  for (size_t i = 0; i < count; i += kBenchDepth) {
    const auto ns = get(kBenchDepth);
    if (!ns) return ns.status();
    all.seconds += *ns * 1e-9;
  }
  all.cpu_seconds = cpu_seconds() - cpu;
  return all;
}

double DaemonReads::share_from_store() {
  const auto text = engine_->stat();
  const auto account = text ? parse_account(*text) : Status(Code::kUnavailable, "no account");
  if (!account || asked_ == 0) return 0;
  return static_cast<double>(account->count("pages_get_store")) / static_cast<double>(asked_);
}

double DaemonReads::cpu_seconds() {
  kvs_connection connection{};
  connection.struct_size = sizeof connection;
  KV_CHECK(kvs_connection_get(engine_->client().c(), &connection) == KVS_OK);
  clockid_t clock = 0;
  KV_CHECK(::clock_getcpuclockid(static_cast<pid_t>(connection.daemon_pid), &clock) == 0);
  timespec now{};
  KV_CHECK(::clock_gettime(clock, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

uint64_t DaemonReads::shared_bytes() const {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored))
    if (entry.path().filename().string().find(".bounce-") != std::string::npos)
      bytes = std::max<uint64_t>(bytes, entry.file_size(ignored));
  return bytes;
}

}  // namespace kvsidecar
