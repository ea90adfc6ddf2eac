// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/replay.h"

#include <poll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "clients/cli/await_pool.h"
#include "clients/cli/replay/capacity.h"
#include "clients/cli/replay/config_socket.h"
#include "clients/cli/replay/daemon_process.h"
#include "clients/cli/replay/fleet.h"
#include "clients/cli/replay/report.h"
#include "clients/cli/trace/clairvoyant.h"
#include "clients/cli/trace/generator.h"
#include "clients/cli/trace/shape.h"

namespace kvsidecar {
namespace {

constexpr int kLookMs = 20;              // how often the engines' counts are looked at
constexpr uint64_t kOutageRequests = 8;  // each engine meets the daemon's absence about so often
constexpr uint64_t kOutageMaxNs = 2'000'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

// Differs between replays, whatever their seed. Clock and pid do where there is no random number.
uint64_t random_run() {
  uint64_t run = now_ns() ^ (static_cast<uint64_t>(getpid()) << 40);
  (void)getrandom(&run, sizeof run, GRND_NONBLOCK);
  return run;
}

Status check(const ReplayOptions& options) {
  if (options.requests == 0) return invalid("--requests is 0; at least one is needed");
  if (options.engines == 0 || options.engines > kReplayEnginesMax)
    return invalid("--engines is " + std::to_string(options.engines) + "; it must be 1 to " +
                   std::to_string(kReplayEnginesMax));
  if (options.page_bytes < 4096 || options.page_bytes > (16u << 20) ||
      options.page_bytes % 4096 != 0)
    return invalid("--page-bytes is " + std::to_string(options.page_bytes) +
                   "; it must be a multiple of 4096 up to 16777216");
  if (options.daemon.empty() != options.config.empty())
    return invalid(
        "--daemon and --config belong together; give both, or neither to use the "
        "daemon that runs");
  return {};
}

Result<Trace> load_trace(const ReplayOptions& options) {
  const char* named = std::getenv("KVSIDECAR_TRACE");
  const std::string path = !options.trace.empty() ? options.trace : named ? named : "";
  if (path.empty()) return generate_trace(options.seed, options.requests);
  return read_trace(path, options.requests);
}

// A progress line on a terminal is written over.
const char* line_start() { return isatty(STDERR_FILENO) != 0 ? "\n" : ""; }

class Replay {
 public:
  Replay(const ReplayOptions& options, const Trace& trace)
      : options_(options), trace_(trace), prompts_(pages_of(trace)) {
    if (!options.daemon.empty()) daemon_.emplace(options.daemon, options.config, options.socket);
  }
  Result<ReplayReport> run();

 private:
  Status watch();
  void show_progress(bool last);
  Status outage();
  bool is_half_done(uint64_t begin_ns) const;
  uint64_t done() const { return board_->sum(&EngineScore::requests); }
  ReplayReport finish(double seconds);

  const ReplayOptions& options_;
  const Trace& trace_;
  std::vector<std::vector<uint64_t>> prompts_;
  SharedScoreboard board_;
  std::optional<DaemonProcess> daemon_;
  Fleet fleet_;  // ends before the daemon does
  bool daemon_is_up_ = true;
  uint64_t shown_bytes_ = 0, shown_ns_ = 0;
};

Result<ReplayReport> Replay::run() {
  auto board = make_scoreboard();
  if (!board) return board.status();
  board_ = board.take();
  if (daemon_) {
    Status started = daemon_->start();
    if (!started.ok()) return started;
  }
  // A trace has no pauses: a short one would be through before the first page can be put.
  if (Status ready = await_pool(options_.socket, 1); !ready.ok()) return ready;
  EngineOptions engine;
  engine.socket = options_.socket;
  engine.engines = options_.engines;
  engine.page_bytes = options_.page_bytes;
  engine.seed = options_.seed;
  engine.run = random_run();
  engine.daemon_may_vanish = !daemon_;
  const uint64_t begin_ns = now_ns();
  Status started = fleet_.start(engine, prompts_, *board_);
  if (!started.ok()) return started;
  Status watched = watch();
  if (!watched.ok()) return watched;
  return finish(static_cast<double>(now_ns() - begin_ns) / 1e9);
}

// Until the last engine has ended: progress, the kill in the middle, the limit in time.
Status Replay::watch() {
  const uint64_t begin_ns = now_ns();
  shown_ns_ = begin_ns;
  while (fleet_.running() > 0) {
    (void)poll(nullptr, 0, kLookMs);
    show_progress(false);
    if (options_.seconds != 0 && now_ns() - begin_ns > options_.seconds * kSecond)
      board_->stop.store(1);
    if (daemon_ && board_->killed_ns.load() == 0 && is_half_done(begin_ns)) {
      Status status = outage();
      if (!status.ok()) return status;
    }
    if (daemon_ && !daemon_->is_running())
      return {Code::kUnavailable,
              options_.daemon + " ended by itself; see " + options_.config + ".log"};
  }
  show_progress(true);
  return {};
}

bool Replay::is_half_done(uint64_t begin_ns) const {
  if (options_.seconds != 0 && now_ns() - begin_ns > options_.seconds * kSecond / 2) return true;
  return done() >= prompts_.size() / 2;
}

Status Replay::outage() {
  const uint64_t killed_ns = now_ns();
  board_->killed_ns.store(killed_ns);
  daemon_->kill();
  daemon_is_up_ = false;
  std::fprintf(stderr, "%sreplay: SIGKILL to the daemon; the engines go on\n", line_start());
  // The engines go on meanwhile, each with some requests that find nobody.
  while (fleet_.running() > 0 && now_ns() - killed_ns < kOutageMaxNs &&
         board_->sum(&EngineScore::outage_requests) < kOutageRequests * options_.engines) {
    (void)poll(nullptr, 0, kLookMs);
    show_progress(false);
  }
  Status started = daemon_->start();
  daemon_is_up_ = started.ok();
  if (started.ok()) std::fprintf(stderr, "%sreplay: the daemon is started again\n", line_start());
  return started;
}

void Replay::show_progress(bool last) {
  const uint64_t now = now_ns();
  if (!last && now - shown_ns_ < kSecond) return;
  const ReplayReport r = report_of(*board_);
  const uint64_t bytes = r.bytes_loaded + r.bytes_stored;
  const double rate =
      static_cast<double>(bytes - shown_bytes_) / static_cast<double>(now - shown_ns_ + 1);
  shown_bytes_ = bytes;
  shown_ns_ = now;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr,
               "%sreplay: %5llu of %zu requests, %llu hits, %llu misses, %llu bytes wrong, "
               "%.2f GB/s, daemon %s   %s",
               terminal ? "\r" : "", static_cast<unsigned long long>(r.requests), prompts_.size(),
               static_cast<unsigned long long>(r.hits()),
               static_cast<unsigned long long>(r.pages_missed),
               static_cast<unsigned long long>(r.bytes_wrong), rate,
               daemon_is_up_ ? "up" : "killed", terminal && !last ? "" : "\n");
}

ReplayReport Replay::finish(double seconds) {
  ReplayReport report = report_of(*board_);
  report.trace = trace_.name;
  report.page_bytes = options_.page_bytes;
  report.seconds = seconds;
  report.engines_failed = fleet_.failed();
  const auto capacity = read_capacity(options_.socket, options_.page_bytes);
  if (!capacity) {
    std::fprintf(stderr, "replay: no bound is shown: %s\n", capacity.status().text().c_str());
    return report;
  }
  report.pool_capacity_pages = capacity->pool_pages;
  report.total_capacity_pages = capacity->pool_pages + capacity->store_pages;
  prompts_.resize(std::min<size_t>(prompts_.size(), report.requests));
  report.best_pool_hits = clairvoyant_hits(prompts_, report.pool_capacity_pages);
  report.best_total_hits = clairvoyant_hits(prompts_, report.total_capacity_pages);
  return report;
}

int could_not_run(const Status& status) {
  std::fprintf(stderr, "replay: %s\n", status.text().c_str());
  return 2;
}

}  // namespace

int run_replay(const ReplayOptions& given) {
  ReplayOptions options = given;
  Status checked = check(options);
  if (!checked.ok()) return could_not_run(checked);
  if (!options.daemon.empty() && options.socket.empty() && !options.shape) {
    auto socket = socket_of_config(options.daemon, options.config);
    if (!socket) return could_not_run(socket.status());
    options.socket = socket.take();
  }
  const auto trace = load_trace(options);
  if (!trace) return could_not_run(trace.status());
  if (!options.json) {
    const Shape shape = measure_shape(*trace);
    std::printf("trace: %s\n%s\n", trace->name.c_str(),
                compare_shapes(shape, reference_shape(shape.requests)).c_str());
    std::fflush(stdout);
  }
  if (options.shape) return 0;
  Replay replay(options, *trace);
  const auto report = replay.run();
  if (!report) return could_not_run(report.status());
  std::printf("%s", options.json ? report_json(*report).c_str() : report_table(*report).c_str());
  const bool passed = failure_of(*report).empty();
  if (!passed)
    std::fprintf(stderr, "replay: %s\n", verdict(*report).c_str());
  else if (!options.json)
    std::printf("%s\n", verdict(*report).c_str());
  return passed ? 0 : 1;
}

}  // namespace kvsidecar
