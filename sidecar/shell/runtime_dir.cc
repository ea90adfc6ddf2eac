// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/runtime_dir.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "sidecar/shell/allow_rules.h"
#include "sidecar/store/node_folder.h"

namespace kvsidecar {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A directory made here is passable for the clients' group, as the packaged one is.
void give_to_client_group(const std::string& path) {
  const std::optional<uint32_t> gid = client_group();
  if (gid) (void)!::chown(path.c_str(), static_cast<uid_t>(-1), *gid);
}

// True when the process is on its way out: a zombie, exiting, or with a SIGKILL that it hasn't
// taken.
bool is_ending(int pid) {
  constexpr uint64_t kSigkillBit = 1ull << (SIGKILL - 1);
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  if (!status) return true;
  std::string name, value, rest;
  while (status >> name >> value && std::getline(status, rest)) {
    if (name == "State:" && (value == "Z" || value == "X")) return true;
    if ((name == "SigPnd:" || name == "ShdPnd:") &&
        (std::strtoull(value.c_str(), nullptr, 16) & kSigkillBit) != 0)
      return true;
  }
  return false;
}

// Waits for the end of a process that is ending, or may be about to: whoever kills a daemon and
// starts the next at once must not be refused. True when it is gone.
bool wait_for_end(int pid) {
  constexpr int kLookMs = 200, kEndingMs = 5000;
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return true;
  pollfd ended{pidfd.get(), POLLIN, 0};
  if (!is_ending(pid) && ::poll(&ended, 1, kLookMs) == 1) return true;
  return is_ending(pid) && ::poll(&ended, 1, kEndingMs) == 1;
}

Status make_directory(const std::string& path) {
  constexpr const char* kKey = "daemon.runtime_dir";
  const bool made = ::mkdir(path.c_str(), 0750) == 0;
  if (made) give_to_client_group(path);
  if (made || errno == EEXIST) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return os_error("stat " + path, errno);
    if (!S_ISDIR(facts.st_mode))
      return invalid(std::string(kKey) + " = \"" + path + "\" is no directory; choose another");
    return {};
  }
  const int error = errno;
  if (error == ENOENT)
    if (Status parent = check_parent(kKey, path); !parent.ok()) return parent;
  return invalid(
      os_error(std::string(kKey) + " = \"" + path + "\" can't be made by " + own_user(), error)
          .text() +
      "; make it and give it to this user, or name a directory that it may make");
}

}  // namespace

Status check_parent(const char* key, const std::string& path) {
  const size_t slash = path.rfind('/', path.find_last_not_of('/'));
  const std::string parent =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  if (::access(parent.c_str(), F_OK) == 0 || errno != ENOENT) return {};
  return invalid(std::string(key) + " = \"" + path + "\" can't be made: " + parent +
                 " does not exist; make the parent: mkdir -p " + parent);
}

RuntimeDir::Identity RuntimeDir::identity_of(int pid) {
  Identity identity{pid, 0, read_line("/proc/sys/kernel/random/boot_id")};
  const std::string stat = read_line("/proc/" + std::to_string(pid) + "/stat");
  // Field 22 is the start time; the command in field 2 may hold anything but ends with the last
  // ')'.
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22 && (fields >> field); ++i) {
    if (i == 3 && (field == "Z" || field == "X")) break;  // nothing of it is left but its number
    if (i == 22) identity.start_ticks = std::strtoull(field.c_str(), nullptr, 10);
  }
  return identity;
}

RuntimeDir::Identity RuntimeDir::read_identity(int fd) {
  char text[256] = {};
  const ssize_t bytes = ::pread(fd, text, sizeof text - 1, 0);
  Identity identity;
  if (bytes <= 0) return identity;
  std::istringstream fields(text);
  fields >> identity.pid >> identity.start_ticks >> identity.boot_id;
  return identity;
}

Result<RuntimeDir> RuntimeDir::claim(const std::string& path) {
  if (Status status = make_directory(path); !status.ok()) return status;
  RuntimeDir dir;
  dir.path_ = path;
  const std::string file = path + "/kvsidecard.pid";
  dir.lock_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!dir.lock_) return os_error("open " + file, errno, Code::kInvalid);
  int locked = ::flock(dir.lock_.get(), LOCK_EX | LOCK_NB);
  if (locked != 0 && errno != EWOULDBLOCK) return os_error("lock " + file, errno);
  const int owner = read_identity(dir.lock_.get()).pid;
  if (locked != 0 && owner > 0 && owner != ::getpid() && wait_for_end(owner))
    locked = ::flock(dir.lock_.get(), LOCK_EX | LOCK_NB);
  if (locked != 0) {
    return Status(Code::kBusy, "another kvsidecard (pid " + std::to_string(owner) +
                                   ") has daemon.runtime_dir = \"" + path +
                                   "\"; stop it, or give this one a directory of its own");
  }
  dir.predecessor_ = read_identity(dir.lock_.get());
  // It lets go of its locks one after the other: the state directory and the store come next.
  if (!dir.predecessor_gone() && is_ending(dir.predecessor_.pid))
    wait_for_end(dir.predecessor_.pid);
  const Identity own = identity_of(::getpid());
  const std::string text =
      std::to_string(own.pid) + " " + std::to_string(own.start_ticks) + " " + own.boot_id + "\n";
  if (::pwrite(dir.lock_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(dir.lock_.get(), static_cast<off_t>(text.size())) != 0)
    return os_error("write " + file, errno);
  return dir;
}

bool RuntimeDir::predecessor_gone() const {
  if (predecessor_.pid <= 0) return true;
  const Identity now = identity_of(predecessor_.pid);
  return now.start_ticks == 0 || now.start_ticks != predecessor_.start_ticks ||
         now.boot_id != predecessor_.boot_id;
}

}  // namespace kvsidecar
