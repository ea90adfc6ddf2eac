// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/usrbio/mini3fs/leftovers.h"

namespace kvsidecar::fake3fs {
namespace {

constexpr int kStartMs = 20'000;
constexpr timeval kAnswerTime = {.tv_sec = 30, .tv_usec = 0};

// In the child: only what is safe between fork and exec.
[[noreturn]] void become_server(char** words, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent && ::dup2(output, STDOUT_FILENO) >= 0) ::execv(words[0], words);
  ::_exit(127);
}

// Root of a container often may not mount.
bool may_mount() {
  constexpr unsigned kSysAdmin = 21;  // CAP_SYS_ADMIN
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:"))
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kSysAdmin & 1) != 0;
  return false;
}

bool said_ready(int output) {
  pollfd waiting{.fd = output, .events = POLLIN, .revents = 0};
  char text[64];
  return ::poll(&waiting, 1, kStartMs) == 1 && ::read(output, text, sizeof(text)) >= 5 &&
         std::memcmp(text, "ready", 5) == 0;
}

}  // namespace

std::string Mini3fs::missing() {
  if (::geteuid() != 0 || !may_mount()) return "mini3fs mounts, which takes root (CAP_SYS_ADMIN)";
  const UniqueFd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fuse) return std::string("mini3fs needs /dev/fuse: ") + std::strerror(errno);
  return "";
}

Result<std::unique_ptr<Mini3fs>> Mini3fs::start(const Options& options) {
  remove_folders_of_dead_tests();
  auto folder = make_test_folder();
  if (!folder.ok()) return folder.status();
  std::unique_ptr<Mini3fs> made(new Mini3fs(options));
  made->folder_ = *folder;
  made->mount_ = *folder + "/mount";
  made->data_ = *folder + "/data";
  made->state_ = *folder + "/state";
  ::chmod(folder->c_str(), 0755);  // another user's processes may come by
  for (const std::string& path : {made->mount_, made->data_, made->state_})
    if (::mkdir(path.c_str(), 0777) != 0) return os_error("mkdir " + path, errno);
  ::chmod(made->data_.c_str(), 0777);
  const Status started = made->spawn();
  if (!started.ok()) return started;
  return made;
}

Mini3fs::~Mini3fs() {
  kill();
  if (!folder_.empty()) remove_test_folder(folder_);
}

Status Mini3fs::spawn() {
  std::vector<std::string> texts = {MINI3FS_PROGRAM,
                                    mount_,
                                    data_,
                                    "--state",
                                    state_,
                                    "--chunk",
                                    std::to_string(options_.chunk_bytes),
                                    "--workers",
                                    std::to_string(options_.workers)};
  texts.insert(texts.end(), options_.more.begin(), options_.more.end());
  std::vector<char*> words;
  for (std::string& text : texts) words.push_back(text.data());
  words.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os_error("pipe", errno);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become_server(words.data(), writing.get(), parent);
  if (pid_ < 0) return os_error("fork", errno);
  writing.reset();
  if (!said_ready(reading.get())) {
    kill();
    return invalid("mini3fs didn't say that it is ready; its errors are on stderr");
  }
  return connect();
}

Status Mini3fs::connect() {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (state_ + "/control").copy(address.sun_path, sizeof(address.sun_path) - 1);
  control_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(control_.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof(kAnswerTime));
  if (::connect(control_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return os_error("connect to mini3fs", errno);
  return {};
}

void Mini3fs::kill() {
  control_.reset();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Mini3fs::detach() { ::umount2(mount_.c_str(), MNT_DETACH); }

Status Mini3fs::restart() {
  kill();
  detach();
  return spawn();
}

void Mini3fs::stop_process() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

void Mini3fs::continue_process() { ::kill(pid_, SIGCONT); }

Status Mini3fs::set(const std::string& name, const std::string& value) {
  return command("set " + name + " " + value);
}

Status Mini3fs::command(const std::string& line, std::string* reply) {
  const std::string sent = line + "\n";
  if (::send(control_.get(), sent.data(), sent.size(), MSG_NOSIGNAL) < 0)
    return os_error("mini3fs is gone", errno);
  std::string text;
  char part[4096];
  while (!text.ends_with("ok\n")) {
    const size_t error = text.find("error: ");
    if (error != std::string::npos && text.ends_with("\n")) return invalid(text.substr(error + 7));
    const ssize_t got = ::recv(control_.get(), part, sizeof(part), 0);
    if (got <= 0) return os_error("mini3fs doesn't answer", got == 0 ? ECONNRESET : errno);
    text.append(part, static_cast<size_t>(got));
  }
  if (reply != nullptr) *reply = text;
  return {};
}

int64_t Mini3fs::count(const std::string& name) {
  std::string reply = "\n", answer;
  if (!command("counts", &answer).ok()) return -1;
  reply += answer;
  const size_t at = reply.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::atoll(reply.c_str() + at + name.size() + 2);
}

bool Mini3fs::wait_for(const std::string& name, int64_t at_least) {
  return command("wait " + name + " " + std::to_string(at_least)).ok();
}

}  // namespace kvsidecar::fake3fs
