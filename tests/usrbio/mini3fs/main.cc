// SPDX-License-Identifier: Apache-2.0
// mini3fs MOUNT DATA --state FOLDER [options]: serves the plain folder DATA as a 3FS mount at MOUNT
// until SIGTERM, which unmounts. Prints "ready" once it does. FOLDER keeps the control socket
// ("control") and the names of what must not be left behind. SIGKILL leaves a dead mount, as the
// real daemon's death does without auto_unmount.
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/usrbio/core/worker_threads.h"
#include "tests/usrbio/mini3fs/control.h"
#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

struct Options {
  std::string mount, data, state, name = "mini";
  uint64_t chunk_bytes = 1 << 20;
  unsigned workers = 4;
  std::vector<std::string> faults;  // NAME=VALUE
  std::vector<double> timeouts = {0, 0, 0};
  bool no_read_cache = false;
};

int failed(const std::string& why) {
  std::fprintf(stderr, "mini3fs: %s\n", why.c_str());
  return 1;
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops operations{};
  set_name_operations(operations);
  set_folder_operations(operations);
  set_file_operations(operations);
  set_ioctl_operation(operations);
  return operations;
}

int serve(const Options& options, FileSystem& fs) {
  std::string mount_options = "subtype=hf3fs,allow_other,default_permissions";
  mount_options += ",fsname=hf3fs." + options.name;
  std::vector<std::string> texts = {"mini3fs", "-o", mount_options};
  std::vector<char*> words;
  for (std::string& text : texts) words.push_back(text.data());
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  const fuse_lowlevel_ops served = operations();
  fuse_session* session = fuse_session_new(&args, &served, sizeof(served), &fs);
  if (session == nullptr) return failed("libfuse doesn't take the options " + mount_options);
  int result = 1;
  if (fuse_set_signal_handlers(session) != 0) {
    failed("can't handle signals");
  } else if (fuse_session_mount(session, options.mount.c_str()) != 0) {
    failed("can't mount on " + options.mount + "; it needs /dev/fuse and root");
  } else {
    std::puts("ready");
    std::fflush(stdout);
    fuse_loop_config* config = fuse_loop_cfg_create();
    // It says by which signal it was ended; the signals that end it are no failures.
    result = fuse_session_loop_mt(session, config) < 0 ? 1 : 0;
    fuse_loop_cfg_destroy(config);
    fuse_session_unmount(session);
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&args);
  return result;
}

int run(const Options& options) {
  ::umask(0);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  Faults faults(operation_fault_names());
  for (const std::string& text : options.faults) {
    const size_t equals = text.find('=');
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    const Status set = faults.set(text.substr(0, equals), value);
    if (!set.ok()) return failed(set.text());
  }
  Counts counts;
  auto nodes = NodeTable::open(options.data, options.chunk_bytes, faults);
  if (!nodes.ok()) return failed(nodes.status().text());
  Server server(real_clock(), **nodes, faults, counts);
  Registrations registrations(server, kFirstIovInode);
  auto semaphores = SubmitSemaphores::make(server, faults, options.state + "/semaphores");
  if (!semaphores.ok()) return failed(semaphores.status().text());
  FileSystem fs{.name = options.name,
                .timeouts = {.attributes = options.timeouts[0],
                             .entry = options.timeouts[1],
                             .negative = options.timeouts[2]},
                .read_cache = !options.no_read_cache,
                .faults = &faults,
                .counts = &counts,
                .nodes = nodes->get(),
                .server = &server,
                .registrations = &registrations,
                .semaphores = semaphores->get()};
  auto control = Control::listen(options.state + "/control", fs);
  if (!control.ok()) return failed(control.status().text());
  const WorkerThreads workers(server, options.workers);
  return serve(options, fs);
}

}  // namespace
}  // namespace kvsidecar::fake3fs

int main(int argc, char** argv) {
  kvsidecar::fake3fs::Options options;
  CLI::App app("A small file system that speaks 3FS's USRBIO protocol, for tests");
  app.add_option("mount", options.mount, "an empty folder to mount on")->required();
  app.add_option("data", options.data, "the folder whose files are served")->required();
  app.add_option("--state", options.state, "folder for the control socket")->required();
  app.add_option("--chunk", options.chunk_bytes, "bytes of a chunk")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30));
  app.add_option("--workers", options.workers, "threads that run I/O")->check(CLI::Range(1, 64));
  app.add_option("--name", options.name, "name of the mount");
  app.add_option("--set", options.faults, "NAME=VALUE of a fault");
  app.add_option("--timeouts", options.timeouts,
                 "seconds that the kernel keeps attributes, entries and missing names")
      ->expected(3);
  app.add_flag("--no-read-cache", options.no_read_cache, "the kernel caches no file pages");
  CLI11_PARSE(app, argc, argv);
  return kvsidecar::fake3fs::run(options);
}
