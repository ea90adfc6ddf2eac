// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/import.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/import/import_plan.h"
#include "clients/cli/import/import_report.h"
#include "clients/cli/import/import_run.h"
#include "clients/cli/import/server_check.h"
#include "clients/cli/print.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr const char* kName = "import-hf3fs";
constexpr uint64_t kTimeoutNs = 60'000'000'000;

struct DaemonFacts {
  std::string list;      // its namespaces
  bool durable = false;  // it has a store
};

Result<DaemonFacts> ask(const Target& target) {
  auto asker = Asker::open(target);
  if (!asker) return asker.status();
  const auto status = asker->stat(KVS_STAT_STATUS);
  if (!status) return status.status();
  auto list = asker->stat(KVS_STAT_NAMESPACES);
  if (!list) return list.status();
  const auto json = nlohmann::json::parse(*status, nullptr, false);
  if (!json.is_object()) return Status(Code::kInternal, "the daemon's status isn't one");
  // Until then it may look as if a generation held no page.
  if (!json.value("scanned", false))
    return Status(Code::kBusy, "the daemon still reads its store's directories; try again");
  return DaemonFacts{list.take(), json.value("store", "none") != "none"};
}

// Shows at most one line a second, on a terminal over the last one, else every ten seconds.
class ProgressLine {
 public:
  void show(const ImportProgress& progress) {
    const uint64_t now = monotonic_ns();
    if (now - shown_ns_ < (terminal_ ? 1 : 10) * kSecond) return;
    const double seconds = static_cast<double>(now - begin_ns_) / 1e9;
    std::fprintf(
        stderr, "%simport: %s of %s pages, %s, %s/s%s", terminal_ ? "\r" : "",
        count_text(progress.done).c_str(), count_text(progress.pages).c_str(),
        bytes_text(progress.bytes).c_str(),
        bytes_text(static_cast<uint64_t>(static_cast<double>(progress.bytes) / seconds)).c_str(),
        terminal_ ? "   " : "\n");
    shown_ns_ = now;
    open_ = terminal_;
  }
  void end() {
    if (open_) std::fprintf(stderr, "\n");
  }

 private:
  static constexpr uint64_t kSecond = 1'000'000'000;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  const uint64_t begin_ns_ = monotonic_ns();
  uint64_t shown_ns_ = begin_ns_;
  bool open_ = false;
};

Result<client::Client> open_client(const Target& target) {
  kvs_options options{};
  options.socket_path = target.socket.empty() ? nullptr : target.socket.c_str();
  options.name = kName;
  options.default_timeout_ns = kTimeoutNs;
  options.no_reconnect = 1;
  auto client = client::Client::open(options);
  if (!client) return status_of(client.outcome());
  return std::move(*client);
}

Result<ImportPlan> prepare(const ImportOptions& options, const DaemonFacts& daemon) {
  auto plan = open_files(options);
  if (!plan) return plan;
  if (Status status = match(*plan, options, daemon.list); !status.ok()) return status;
  if (Status status = read_tables(*plan, options); !status.ok()) return status;
  if (const std::string path = plan->changed(); !path.empty())
    return Status(Code::kBusy, path + " has changed meanwhile; stop who writes it");
  return plan;
}

}  // namespace

int run_import_hf3fs(const Target& target, const ImportOptions& options) {
  if (Status status = check_server_stopped(options.server); !status.ok())
    return fail(target, kName, status);
  const auto daemon = ask(target);
  if (!daemon) return fail(target, kName, daemon.status());
  auto plan = prepare(options, *daemon);
  if (!plan) return fail(target, kName, plan.status());
  auto client = open_client(target);
  if (!client) return fail(target, kName, client.status());
  ProgressLine line;
  const ImportReport report =
      run_import(*client, *plan, daemon->durable,
                 [&line](const ImportProgress& progress) { line.show(progress); });
  line.end();
  const std::string text = target.json ? report_json(*plan, report) : report_text(*plan, report);
  std::printf("%s", text.c_str());
  return report.complete() ? 0 : kExitFailed;
}

}  // namespace kvsidecar
