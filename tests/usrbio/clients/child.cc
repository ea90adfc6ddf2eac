// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/clients/child.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tests/usrbio/clients/bed.h"

namespace kvsidecar::usrbio {
namespace {

constexpr int kPatienceMs = 20'000;

Result<std::unique_ptr<Client>> open_client(const std::string& path, const std::string& library) {
  return library == "-" ? open_builtin(path) : open_library(path, library);
}

int failed(const Status& status) {
  std::fprintf(stderr, "%s\n", status.text().c_str());
  return 1;
}

}  // namespace

bool Child::wait_for_line() {
  pollfd readable{output_.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&readable, 1, kPatienceMs) == 1 && ::read(output_.get(), &byte, 1) == 1;
}

int Child::wait() {
  int status = 0;
  if (pid_ < 0 || ::waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Child::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

Child start_child(const std::vector<std::string>& command) {
  std::vector<std::string> all = {std::filesystem::read_symlink("/proc/self/exe"), "child"};
  for (const auto& more : {subject().child_arguments(), command})
    all.insert(all.end(), more.begin(), more.end());
  std::vector<char*> pointers;
  for (std::string& one : all) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  int ends[2];
  KV_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd out(ends[0]), in(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  int pid = -1;
  KV_CHECK(::posix_spawn(&pid, all[0].c_str(), &actions, nullptr, pointers.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  return {pid, std::move(out)};
}

int run_child(const std::vector<std::string>& command) { return start_child(command).wait(); }

int child_main(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return 2;
  const std::string &library = arguments[0], &what = arguments[1], &path = arguments[2];
  const SharedBytes shared(64 << 10);
  auto client = open_client(path, library);
  if (!client) return failed(client.status());
  auto memory = (*client)->register_memory(shared.path(), shared.all());
  if (!memory) return failed(memory.status());
  auto writes = (*client)->make_ring({.entries = 4, .for_read = false});
  if (!writes) return failed(writes.status());
  auto reads = (*client)->make_ring({.entries = 4});
  if (!reads) return failed(reads.status());
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto file = (*client)->register_file(fd.get());
  if (!file) return failed(file.status());
  if (what == "hold") {
    ::unlink(shared.path().c_str());  // it will be killed
    std::puts("ready");
    std::fflush(stdout);
    for (;;) ::pause();
  }
  if (arguments.size() < 5) return 2;
  const size_t bytes = std::stoul(arguments[3]);
  const auto content = pattern(bytes, std::stoul(arguments[4]));
  std::copy(content.begin(), content.end(), shared.all().begin());
  if ((*writes)->prepare(**memory, shared.all().data(), bytes, **file, 0, 1) != 0) return 3;
  (*writes)->submit();
  Completion ended;
  if (!eventually([&] { return (*writes)->poll({&ended, 1}) == 1; })) return 4;
  if (ended.result != static_cast<int64_t>(bytes)) return 5;
  return ::fsync(fd.get()) == 0 ? 0 : 6;
}

}  // namespace kvsidecar::usrbio
