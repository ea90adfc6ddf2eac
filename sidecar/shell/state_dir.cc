// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/state_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sidecar/page_record.h"
#include "sidecar/store/node_folder.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kNamespaceMagic = 0x313053454d414e4bull;  // "KNAMES01"
constexpr uint64_t kNumberMagic = 0x31304d554e56534bull;     // "KSVNUM01"

// A namespace's file: this head, the canonical form, XXH3-128 of all before it.
struct NamespaceHead {
  uint64_t magic, generation;
  uint32_t encoded_bytes, reserved;
};

template <typename T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append_check(std::vector<std::byte>& out) { append(out, namespace_id(out)); }

// What stands before the check, when the check is right.
Result<Bytes> checked(Bytes content, const std::string& path) {
  Hash128 check;
  if (content.size() >= sizeof check) {
    const Bytes body = content.first(content.size() - sizeof check);
    std::memcpy(&check, content.data() + body.size(), sizeof check);
    if (namespace_id(body) == check) return body;
  }
  return Status(Code::kCorrupt, path + " isn't what a kvsidecard wrote; restore or remove it");
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  // O_NONBLOCK: a fifo of that name must not hang us.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return os_error("open " + path, errno, errno == ENOENT ? Code::kMiss : Code::kIoError);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return os_error("stat " + path, errno, Code::kIoError);
  if (!S_ISREG(facts.st_mode)) return invalid(path + " isn't a regular file; remove it");
  std::vector<std::byte> content(kIdentityBytesMax + 4096);
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("read " + path, errno, Code::kIoError);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return content;
}

Status write_all(int fd, Bytes content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return os_error("write " + path, errno, Code::kIoError);
    content = content.subspan(static_cast<size_t>(put));
  }
  return {};
}

Status sync_directory(const std::string& path) {
  const UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::fsync(dir.get()) != 0) return os_error("fsync " + path, errno, Code::kIoError);
  return {};
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("daemon.state_dir: \"" + path + "\" can't be made", errno, Code::kInvalid);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return {};
  return invalid("daemon.state_dir: \"" + path + "\" is no directory; remove it");
}

std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_temporary(const std::string& name) {
  return name.size() > 4 && name.compare(name.size() - 4, 4, ".tmp") == 0;
}

}  // namespace

Result<StateDir> StateDir::open(const std::string& path, Clock& clock, FaultPoints& faults) {
  StateDir dir;
  dir.path_ = path;
  dir.clock_ = &clock;
  dir.faults_ = &faults;
  const std::string namespaces = path + "/namespaces";
  if (Status status = make_directory(path); !status.ok()) return status;
  if (Status status = make_directory(namespaces); !status.ok()) return status;
  dir.lock_ =
      UniqueFd(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!dir.lock_) return os_error("open " + path + "/lock", errno, Code::kInvalid);
  if (::flock(dir.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return Status(Code::kBusy, "another kvsidecard has daemon.state_dir = \"" + path +
                                   "\"; give this one a directory of its own");
  for (const std::string& folder : {path, namespaces})
    for (const std::string& name : files_of(folder))
      if (is_temporary(name)) ::unlink((folder + "/" + name).c_str());

  const Result<Hash128> node = node_uuid(path);
  if (!node) return node.status();
  static_assert(sizeof *node == sizeof dir.node_);
  std::memcpy(dir.node_.data(), &*node, sizeof *node);
  return dir;
}

Result<uint64_t> StateDir::next_epoch() {
  // A state directory that was lost must not begin again at 1: slots and segments of earlier
  // epochs may still lie about. So the first epoch is the wall clock's second.
  uint64_t epoch = clock_->wall_ms() / 1000;
  const std::string file = path_ + "/epoch";
  const Result<std::vector<std::byte>> content = read_file(file);
  if (content) {
    const Result<Bytes> body = checked(*content, file);
    if (!body) return body.status();
    uint64_t numbers[2] = {};
    if (body->size() != sizeof numbers) return Status(Code::kCorrupt, file + " has a wrong length");
    std::memcpy(numbers, body->data(), sizeof numbers);
    if (numbers[0] != kNumberMagic) return Status(Code::kCorrupt, file + " has a wrong magic");
    epoch = numbers[1] + 1;
  } else if (content.status().code() != Code::kMiss) {
    return content.status();
  }
  if (epoch == 0 || epoch > 0xffffffffull)
    return Status(Code::kInvalid, "epoch " + std::to_string(epoch) + " doesn't fit 32 bits");
  std::vector<std::byte> fresh;
  append(fresh, kNumberMagic);
  append(fresh, epoch);
  append_check(fresh);
  if (Status status = replace("epoch", fresh); !status.ok()) return status;
  return epoch;
}

Result<uint64_t> StateDir::save_namespace(const Hash128& id, Bytes encoded, uint64_t generation) {
  const std::string name = "namespaces/" + to_hex(id);
  const Result<SavedNamespace> saved = load_namespace(name);
  if (saved && saved->generation >= generation) return saved->generation;
  if (!saved && saved.status().code() != Code::kMiss) return saved.status();
  std::vector<std::byte> content;
  append(content,
         NamespaceHead{kNamespaceMagic, generation, static_cast<uint32_t>(encoded.size()), 0});
  content.insert(content.end(), encoded.begin(), encoded.end());
  append_check(content);
  if (Status status = replace(name, content); !status.ok()) return status;
  return generation;
}

// Not synced: a record that comes back after a crash says what was true.
void StateDir::forget_namespace(const Hash128& id) {
  const std::string name = "namespaces/" + to_hex(id);
  const Result<SavedNamespace> saved = load_namespace(name);
  if (saved && saved->generation <= 1) ::unlink((path_ + "/" + name).c_str());
}

Result<StateDir::SavedNamespace> StateDir::load_namespace(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const Result<std::vector<std::byte>> content = read_file(path);
  if (!content) return content.status();
  const Result<Bytes> body = checked(*content, path);
  if (!body) return body.status();
  NamespaceHead head{};
  if (body->size() < sizeof head) return Status(Code::kCorrupt, path + " is too short");
  std::memcpy(&head, body->data(), sizeof head);
  const Bytes encoded = body->subspan(sizeof head);
  if (head.magic != kNamespaceMagic || head.encoded_bytes != encoded.size() ||
      "namespaces/" + to_hex(namespace_id(encoded)) != name)
    return Status(Code::kCorrupt, path + " doesn't hold the namespace of its name");
  if (head.generation > kGenerationMax)
    return Status(Code::kCorrupt, path + " has a generation that no clears can have reached");
  return SavedNamespace{{encoded.begin(), encoded.end()}, head.generation};
}

Result<std::vector<StateDir::SavedNamespace>> StateDir::load_namespaces(size_t& damaged) const {
  std::vector<SavedNamespace> all;
  damaged = 0;
  for (const std::string& name : files_of(path_ + "/namespaces")) {
    if (is_temporary(name)) continue;
    Result<SavedNamespace> saved = load_namespace("namespaces/" + name);
    if (saved)
      all.push_back(saved.take());
    else
      ++damaged;
  }
  return all;
}

Status StateDir::replace(const std::string& name, Bytes content) const {
  const std::string path = path_ + "/" + name, temporary = path + ".tmp";
  const auto failed = [&](const char* point, const std::string& what) -> Status {
    const int error = faults_->fail(point);
    return error == 0 ? Status() : os_error(what, error, Code::kIoError);
  };
  if (Status s = failed("state.open", "open " + temporary); !s.ok()) return s;
  UniqueFd file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return os_error("open " + temporary, errno, Code::kIoError);
  if (Status s = failed("state.write", "write " + temporary); !s.ok()) return s;
  if (Status s = write_all(file.get(), content, temporary); !s.ok()) return s;
  if (Status s = failed("state.fsync", "fsync " + temporary); !s.ok()) return s;
  if (::fsync(file.get()) != 0) return os_error("fsync " + temporary, errno, Code::kIoError);
  if (Status s = failed("state.rename", "rename " + temporary); !s.ok()) return s;
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return os_error("rename " + temporary, errno, Code::kIoError);
  if (Status s = failed("state.fsync_dir", "fsync " + path_); !s.ok()) return s;
  return sync_directory(path.substr(0, path.rfind('/')));
}

}  // namespace kvsidecar
