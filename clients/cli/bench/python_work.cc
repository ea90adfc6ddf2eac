// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "clients/cli/bench/work.h"
#include "clients/cpp/kvsidecar.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

// Tasks go out as lines, a line with nanoseconds comes back for each.
class PythonWork : public Work {
 public:
  PythonWork(pid_t pid, FILE* tasks, FILE* answers) : pid_(pid), tasks_(tasks), answers_(answers) {}
  ~PythonWork() override {
    std::fclose(tasks_);  // its end
    std::fclose(answers_);
    waitpid(pid_, nullptr, 0);
  }

  Result<double> run(const std::string& task) override {
    char line[256];
    std::fprintf(tasks_, "%s\n", task.c_str());
    std::fflush(tasks_);
    if (std::fgets(line, sizeof line, answers_) == nullptr)
      return Status(Code::kUnavailable,
                    "the Python client's process has ended; install the Python package or name its "
                    "folder in PYTHONPATH, or name another interpreter: --python=INTERPRETER");
    char* end = nullptr;
    const double nanoseconds = std::strtod(line, &end);
    if (end == line) return Status(Code::kInternal, std::string("the Python client says: ") + line);
    return nanoseconds;
  }

 private:
  pid_t pid_;
  FILE *tasks_, *answers_;
};

[[noreturn]] void become_python(const std::string& interpreter, const std::string& socket,
                                pid_t parent, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&kvs_open), &info) != 0 && info.dli_fname != nullptr)
    setenv("KVSIDECAR_LIBRARY", info.dli_fname, 0);
  execlp(interpreter.c_str(), interpreter.c_str(), "-B", "-m", "kvsidecar.bench", socket.c_str(),
         static_cast<char*>(nullptr));
  std::perror(interpreter.c_str());
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<Work>> start_python_work(const std::string& interpreter,
                                                const std::string& socket) {
  int there[2], back[2];
  if (pipe2(there, O_CLOEXEC) != 0) return os_error("pipe", errno);
  UniqueFd there_read(there[0]), there_write(there[1]);
  if (pipe2(back, O_CLOEXEC) != 0) return os_error("pipe", errno);
  UniqueFd back_read(back[0]), back_write(back[1]);
  signal(SIGPIPE, SIG_IGN);  // an interpreter that has ended is an answer, too
  const pid_t parent = getpid();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return os_error("fork", errno);
  if (pid == 0) become_python(interpreter, socket, parent, there_read.get(), back_write.get());
  return std::unique_ptr<Work>(std::make_unique<PythonWork>(pid, fdopen(there_write.release(), "w"),
                                                            fdopen(back_read.release(), "r")));
}

}  // namespace kvsidecar
