// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/node_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

// The whole of a small file; empty when there is none.
Result<std::string> read_small(int directory, const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  // O_NONBLOCK: a fifo of that name must not hang us.
  UniqueFd fd(::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return std::string();
    return os_error("reading " + path, errno);
  }
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return os_error("reading " + path, errno);
  if (!S_ISREG(facts.st_mode)) return invalid(path + " isn't a regular file; remove it");
  char text[512];
  const ssize_t got = ::pread(fd.get(), text, sizeof text, 0);
  if (got < 0) return os_error("reading " + path, errno);
  return std::string(text, static_cast<size_t>(got));
}

Status write_all(int fd, const std::string& text) {
  if (::ftruncate(fd, 0) != 0) return os_error("truncating", errno);
  const ssize_t put = ::pwrite(fd, text.data(), text.size(), 0);
  if (put != static_cast<ssize_t>(text.size()))
    return os_error("writing", put < 0 ? errno : ENOSPC);
  if (::fsync(fd) != 0) return os_error("fsync", errno);
  return {};
}

// Replaces a small file as a whole: readers see the old text or the new one.
Status replace_small(int directory, const std::string& name, const std::string& text) {
  const std::string temporary = name + ".new";
  UniqueFd fd(::openat(directory, temporary.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error("creating " + temporary, errno);
  Status status = write_all(fd.get(), text);
  if (!status.ok()) return status;
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0)
    return os_error("renaming " + temporary, errno);
  if (::fsync(directory) != 0) return os_error("fsync of the folder", errno);
  return {};
}

Result<UniqueFd> open_directory(const std::string& path, int at = AT_FDCWD,
                                const std::string& name = {}) {
  UniqueFd fd(
      ::openat(at, name.empty() ? path.c_str() : name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("opening folder " + path, errno);
  return fd;
}

// path: the root, or the node's folder in it; the file system refused it with that error.
Status refused(const std::string& root, const std::string& path, int error) {
  std::string remedy = "; name another directory";
  if (error == EACCES || error == EPERM)
    // Of a root, nothing below: other nodes may have their folders there.
    remedy = std::string(path == root ? "; chown " : "; chown -R ") + std::to_string(::geteuid()) +
             " " + path + ", or chmod what is in this user's way";
  else if (error == EROFS)
    remedy = "; mount it for writing, and in systemd's unit set ReadWritePaths=" + root;
  else if (error == ENOENT)
    remedy = "; make the directory, or mount it";
  const std::string what = "store.root = \"" + root + "\"" + (path == root ? "" : ": " + path) +
                           " can't be written by " + own_user() + ", as whom kvsidecard runs";
  return invalid(os_error(what, error).text() + remedy);
}

std::string field(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + " ");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

std::string folder_name(const Hash128& node, uint32_t number) {
  return to_hex(node) + "." + std::to_string(number);
}

std::string folder_path(const std::string& root, const Hash128& node, uint32_t number) {
  return root + "/" + folder_name(node, number);
}

// Effective ids: what the daemon's own calls go by.
int write_error(const std::string& directory, int at = AT_FDCWD) {
  return ::faccessat(at, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace

std::string own_user() {
  const uid_t uid = ::geteuid();
  passwd entry{};
  passwd* found = nullptr;
  char text[4096];
  const bool named = ::getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found != nullptr;
  const std::string number = "uid " + std::to_string(uid);
  return named ? "user " + std::string(found->pw_name) + " (" + number + ")" : number;
}

Status check_store_root(const std::string& root, const std::string& state_directory) {
  const int error = write_error(root);
  if (error == 0) return {};
  // A node that has its folder there needs nothing more of the root.
  if (auto directory = open_directory(state_directory); directory.ok())
    if (auto text = read_small(directory->get(), state_directory, "node"); text.ok())
      if (const auto node = hash_from_hex(std::string_view(*text).substr(0, 32)))
        if (write_error(folder_path(root, *node, 0)) == 0) return {};
  return refused(root, root, error);
}

Result<Hash128> node_uuid(const std::string& state_directory) {
  auto directory = open_directory(state_directory);
  if (!directory) return directory.status();
  auto text = read_small(directory->get(), state_directory, "node");
  if (!text) return text.status();
  if (text->empty()) {
    Hash128 made;
    random_bytes(std::as_writable_bytes(std::span(&made, 1)));
    Status status = replace_small(directory->get(), "node", to_hex(made) + "\n");
    if (!status.ok()) return status;
    return made;
  }
  const auto uuid = hash_from_hex(std::string_view(*text).substr(0, 32));
  if (!uuid || (text->size() != 32 && text->substr(32) != "\n"))
    return invalid(
        "the node's uuid file " + state_directory +
        "/node does not hold 32 hexadecimal digits; restore it, or remove it to start as "
        "a new node with an empty store");
  return *uuid;
}

Result<NodeFolder> NodeFolder::claim(const std::string& root, const std::string& state_directory,
                                     uint32_t number, int root_fd) {
  auto uuid = node_uuid(state_directory);
  if (!uuid) return uuid.status();
  NodeFolder folder;
  folder.node_ = *uuid;
  folder.path_ = folder_path(root, *uuid, number);
  // Below an open root only the name counts; else an absolute path, which no descriptor changes.
  const int at = root_fd >= 0 ? root_fd : AT_FDCWD;
  const std::string name = root_fd >= 0 ? folder_name(*uuid, number) : folder.path_;
  if (::mkdirat(at, name.c_str(), 0700) != 0 && errno != EEXIST) return refused(root, root, errno);
  // Another user's, such as of a daemon that ran as root once.
  if (const int error = write_error(name, at); error == EACCES || error == EROFS)
    return refused(root, folder.path_, error);
  auto directory = open_directory(folder.path_, at, name);
  if (!directory) return directory.status();
  folder.directory_ = directory.take();
  Status status = folder.take_owner_file();
  if (status.ok()) status = folder.take_epoch();
  if (!status.ok()) return status;
  return folder;
}

Status NodeFolder::take_owner_file() {
  owner_ = UniqueFd(
      ::openat(directory_.get(), "owner", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!owner_) return os_error("opening " + path_ + "/owner", errno);
  const int locked = ::flock(owner_.get(), LOCK_EX | LOCK_NB);
  const int lock_error = locked == 0 ? 0 : errno;
  auto text = read_small(directory_.get(), path_, "owner");
  if (!text) return text.status();
  const std::string node = field(*text, "node"), pid = field(*text, "pid"),
                    host = field(*text, "host");
  if (!node.empty() && node != to_hex(node_))
    return Status(Code::kDenied,
                  "store folder " + path_ + " belongs to node " + node + " and this is node " +
                      to_hex(node_) +
                      "; give this node another store root, or move the folder away");
  if (lock_error == EWOULDBLOCK)
    return Status(Code::kDenied,
                  "store folder " + path_ + " is in use by the daemon with pid " + pid +
                      " on host " + host + " (node " + node +
                      "); stop that one, or give this one a state directory of its own");
  // A file system without flock: the pid in the file is the best witness there is.
  if (lock_error != 0 && host == host_name() && !pid.empty() && pid != std::to_string(getpid()) &&
      ::access(("/proc/" + pid).c_str(), F_OK) == 0)
    return Status(Code::kDenied, "store folder " + path_ + " names pid " + pid +
                                     ", which is alive, and cannot be locked; stop that one first");
  Status status = write_all(owner_.get(), "node " + to_hex(node_) + "\nhost " + host_name() +
                                              "\npid " + std::to_string(getpid()) + "\n");
  if (!status.ok())
    return Status(status.code(), "store folder " + path_ + ": owner file: " + status.text());
  return status;
}

Status NodeFolder::take_epoch() {
  auto text = read_small(directory_.get(), path_, "epoch");
  if (!text) return text.status();
  uint32_t highest = 0;
  (void)std::from_chars(text->data(), text->data() + text->size(), highest);
  // The files have a word too: the epoch file may have been lost, or may not hold a number.
  const int listed = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listed < 0) return os_error("listing " + path_, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(listed), ::closedir);
  while (const dirent* entry = ::readdir(entries.get()))
    highest = std::max(highest, static_cast<uint32_t>(segment_from_name(entry->d_name) >> 32));
  if (highest == 0xffffffffu)
    return Status(Code::kCorrupt,
                  "store folder " + path_ +
                      ": its file epoch, or the name of a segment, says that epoch 4294967295 was "
                      "used, after which there is none; move the folder away");
  epoch_ = highest + 1;
  Status status = replace_small(directory_.get(), "epoch", std::to_string(epoch_) + "\n");
  if (!status.ok()) return Status(status.code(), "store folder " + path_ + ": " + status.text());
  return status;
}

}  // namespace kvsidecar
