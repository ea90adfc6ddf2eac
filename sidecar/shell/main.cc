// SPDX-License-Identifier: Apache-2.0
// kvsidecard: command line, supervisor, daemon. Exit codes: 0 stopped as asked, 1 start refused or
// failed, 2 wrong command line or configuration.
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>

#include "sidecar/shell/config_check.h"
#include "sidecar/shell/config_file.h"
#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/daemon.h"
#include "sidecar/shell/log.h"
#include "sidecar/shell/supervisor.h"

namespace {

using namespace kvsidecar;

constexpr const char* kDefaultConfig = "/etc/kvsidecar/kvsidecar.toml";
// Larger buffers go back to the system when they are freed; by default the first that is freed
// raises the limit, and those after it leave holes in the heap.
constexpr int kOwnMappingBytes = 256 << 10;
constexpr int kExitRefused = 1, kExitUsage = 2;

struct Options {
  std::string config;
  bool check = false, print = false, print_default = false, print_man = false;
  bool no_supervisor = false;
};

Result<Config> read_config(const Options& options) {
  if (!options.config.empty()) return load_config(options.config);
  if (::access(kDefaultConfig, F_OK) == 0 || errno != ENOENT) return load_config(kDefaultConfig);
  return finish_config(Config());
}

int serve(const Config& config, Progress progress) {
  log_line(LogLevel::kInfo, "configured",
           format_fields({{"file", config.source.empty() ? "none" : config.source}}) +
               changed_keys(config));
  Result<std::unique_ptr<Daemon>> daemon = Daemon::build(config, progress);
  if (!daemon) {
    log_event(LogLevel::kError, "start_failed", {{"text", daemon.status().text()}});
    return daemon.status().code() == Code::kInvalid ? kExitUsage : kExitRefused;
  }
  return (*daemon)->run();
}

int live(void* context, Progress progress) {
  const int exit_code = serve(*static_cast<const Config*>(context), progress);
  stop_log_thread();
  return exit_code;
}

int act(const Options& options) {
  if (options.print_default || options.print_man) {
    std::fputs((options.print_man ? print_man_table() : print_default_file()).c_str(), stdout);
    return 0;
  }
  Result<Config> config = read_config(options);
  if (!config) {
    std::fprintf(stderr, "kvsidecard: %s\n", config.status().text().c_str());
    return kExitUsage;
  }
  if (options.print) std::fputs(print_config(*config).c_str(), stdout);
  if (options.print && !options.check) return 0;
  if (Status places = check_places(*config); !places.ok()) {
    std::fprintf(stderr, "kvsidecard: %s\n", places.text().c_str());
    return kExitUsage;
  }
  if (options.check) std::puts("the configuration is right");
  if (options.check) return 0;
  set_log_level(config->log_level);
  if (options.no_supervisor) return live(&*config, Progress());
  SupervisorOptions supervisor;
  supervisor.timeout_ns = config->supervisor_timeout_ns;
  return supervise(supervisor, live, &*config);
}

}  // namespace

int main(int argc, char** argv) {
  (void)mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
  Options options;
  CLI::App app("kvsidecard keeps the KV cache of every engine on this node.", "kvsidecard");
  app.add_option("--config", options.config,
                 std::string("configuration file; default ") + kDefaultConfig + " if it exists");
  app.add_flag("--check-config", options.check, "say whether the configuration is right, and exit");
  app.add_flag("--print-config", options.print, "print the effective configuration, and exit");
  app.add_flag("--print-default-config", options.print_default,
               "print every key with its help and default, and exit");
  app.add_flag("--print-config-man", options.print_man,
               "print the keys as a part of a man page, and exit");
  app.add_flag("--no-supervisor", options.no_supervisor,
               "run the daemon in this process: nobody restarts it when it hangs or crashes");
  app.set_version_flag("--version", "kvsidecard " KVSIDECAR_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return act(options);
}
