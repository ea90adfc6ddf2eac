// SPDX-License-Identifier: Apache-2.0
// kvsidecar: the command line. Exit codes: 0; 1 the daemon can't be reached, refuses, or something
// was found wrong; 2 a wrong argument.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>

#include "clients/cli/bench/bench.h"
#include "clients/cli/commands.h"
#include "clients/cli/import/import.h"
#include "clients/cli/print.h"
#include "clients/cli/replay/replay.h"

namespace {

using namespace kvsidecar;

struct Options {
  Target target;
  TopOptions top;
  WhyOptions why;
  LsOptions ls;
  ClearOptions clear;
  DrainOptions drain;
  DoctorOptions doctor{"/etc/kvsidecar/kvsidecar.toml", ""};
  ReplayOptions replay;
  BenchOptions bench;
  ImportOptions import_hf3fs;
};

void add_common(CLI::App& app, Target& target) {
  app.add_option("--socket", target.socket,
                 "the daemon's socket; default $KVSIDECAR_SOCKET, else "
                 "/run/kvsidecar/kvsidecar.sock");
  app.add_flag("--json", target.json, "print JSON");
}

CLI::App& add(CLI::App& app, Options& options, const char* name, const char* help,
              std::function<int()> run, std::function<int()>& chosen) {
  CLI::App& command = *app.add_subcommand(name, help);
  add_common(command, options.target);
  command.callback([&chosen, run] { chosen = run; });
  return command;
}

void add_questions(CLI::App& app, Options& o, std::function<int()>& chosen) {
  add(
      app, o, "status", "what the daemon holds and does at the moment",
      [&o] { return run_status(o.target); }, chosen)
      .add_option("--timeout", o.target.timeout_s, "seconds to wait for the daemon")
      ->check(CLI::Range(1, 3600));
  CLI::App& top = add(
      app, o, "top", "the same, live, with rates", [&o] { return run_top(o.target, o.top); },
      chosen);
  top.add_option("--interval", o.top.interval_ms, "milliseconds between refreshes")
      ->check(CLI::Range(100, 3'600'000));
  top.add_option("--count", o.top.count, "refreshes; 0: until q (one, when not on a terminal)");
  CLI::App& why = add(
      app, o, "why", "where a page is, or why it isn't there",
      [&o] { return run_why(o.target, o.why); }, chosen);
  why.add_option("KEY", o.why.key, "the key, in hex")->required();
  why.add_option("--namespace", o.why.name_space, "look in this namespace only (32 hex digits)");
  add(
      app, o, "ls", "the namespaces, with their pages and generations",
      [&o] { return run_ls(o.target, o.ls); }, chosen)
      .add_flag("--sessions", o.ls.sessions, "the attached processes instead");
  CLI::App& doctor = add(
      app, o, "doctor", "look for what keeps a daemon or a client from working",
      [&o] { return run_doctor(o.target, o.doctor); }, chosen);
  doctor.add_option("--config", o.doctor.config,
                    "configuration that names the store, when no daemon answers");
  doctor.add_option("--store", o.doctor.store, "look at this directory as a store");
}

void add_acts(CLI::App& app, Options& o, std::function<int()>& chosen) {
  add(
      app, o, "clear", "start a new generation of a namespace: none of its pages is found again",
      [&o] { return run_clear(o.target, o.clear); }, chosen)
      .add_option("NAMESPACE", o.clear.name_space, "32 hex digits, as `ls` shows them")
      ->required();
  add(
      app, o, "drain", "let the daemon finish what runs and take no new work",
      [&o] { return run_drain(o.target, o.drain); }, chosen)
      .add_flag("--wait", o.drain.wait, "until nothing runs and nothing waits to be written");
}

void add_import(CLI::App& app, Options& o, std::function<int()>& chosen) {
  CLI::App& command = add(
      app, o, "import-hf3fs", "bring the pages of a stopped SGLang HF3FS backend in",
      [&o] { return run_import_hf3fs(o.target, o.import_hf3fs); }, chosen);
  ImportOptions& i = o.import_hf3fs;
  command.add_option("--metadata", i.metadata, "what its metadata server has saved, JSON")
      ->required();
  command.add_option("--data", i.data, "its data files: PATH, or RANK:POOL=PATH")->required();
  command
      .add_option("--namespace", i.name_spaces,
                  "where to, one for each pool (32 hex digits, as `ls` shows them)")
      ->required();
  command.add_option("--server", i.server, "where the metadata server ran; it must be stopped");
  command.add_flag("--accept-stale", i.accept_stale,
                   "also data that is newer than its metadata: pages may be wrong");
  command.add_flag("--accept-size", i.accept_size,
                   "also data of another size than its metadata counts: pages may be wrong");
  command.add_flag("--beside", i.beside,
                   "also into a generation that holds engines' pages: one clear removes both");
}

void add_replay(CLI::App& app, Options& o, std::function<int()>& chosen) {
  const auto run = [&o] {
    o.replay.socket = o.target.socket;
    o.replay.json = o.target.json;
    return run_replay(o.replay);
  };
  CLI::App& replay =
      add(app, o, "replay",
          "replay a request trace with engine processes, every loaded byte compared", run, chosen);
  ReplayOptions& r = o.replay;
  replay.add_option("--trace", r.trace, "JSON lines; default $KVSIDECAR_TRACE, else generated");
  CLI::Option* daemon = replay.add_option("--daemon", r.daemon,
                                          "start this kvsidecard, kill it in "
                                          "the middle, start it again");
  CLI::Option* config = replay.add_option("--config", r.config,
                                          "that daemon's configuration; it names the socket too");
  daemon->needs(config);
  config->needs(daemon);
  replay.add_option("--requests", r.requests, "of the trace, from its start");
  replay.add_option("--seconds", r.seconds, "stop after so long; 0: no limit");
  replay.add_option("--engines", r.engines, "processes")->check(CLI::Range(1, 16));
  replay.add_option("--page-bytes", r.page_bytes, "a multiple of 4096")
      ->check(CLI::Range(4096, 16 << 20));
  replay.add_option("--seed", r.seed, "of contents and of a generated trace");
  replay.add_flag("--shape", r.shape, "only show how the trace compares with the reference");
}

void add_bench(CLI::App& app, Options& o, std::function<int()>& chosen) {
  const auto run = [&o] {
    o.bench.json = o.target.json;
    return run_bench(o.bench);
  };
  CLI::App& bench =
      add(app, o, "bench", "measure a daemon of its own against this machine's floor", run, chosen);
  bench.add_option("--daemon", o.bench.daemon,
                   "this kvsidecard; default: beside this program, "
                   "else the one in PATH");
  bench.add_option("--only", o.bench.only, "figures with this in their name");
  bench.add_option("--rounds", o.bench.rounds, "measurements of each figure and of its floor")
      ->check(CLI::Range(3, 1001));
  bench.add_option("--pages", o.bench.pages_max, "most pages of the figures about growth");
  bench.add_flag("--python{python3}", o.bench.python,
                 "what rivals were measured at, from the C++ client and from the Python client by "
                 "this interpreter");
  bench.add_flag("--list", o.bench.list, "name the figures, measure nothing");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::function<int()> chosen;
  CLI::App app("Look at, ask and exercise the node's KV cache daemon.", "kvsidecar");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "kvsidecar " KVSIDECAR_VERSION);
  add_common(app, options.target);
  add_questions(app, options, chosen);
  add_acts(app, options, chosen);
  add_replay(app, options, chosen);
  add_import(app, options, chosen);
  add_bench(app, options, chosen);
  try {
    app.parse(argc, argv);
    if (chosen) return chosen();
    std::fprintf(stderr, "%s", app.help().c_str());
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvsidecar: an answer wasn't understood: %s\n", error.what());
    return kExitFailed;
  }
}
