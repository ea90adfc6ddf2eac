// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/config_check.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "ipc/path_answers.h"
#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/runtime_dir.h"
#include "sidecar/store/node_folder.h"
#include "sidecar/store/usrbio/client.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kAnswerNs = 10'000'000'000;

enum class Missing { kIsMade, kIsWrong };

Status wrong(const char* key, const std::string& path, const std::string& why) {
  return invalid(std::string(key) + " = \"" + path + "\" " + why);
}

Status check_directory(const char* key, const std::string& path, Missing missing) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0)
    return S_ISDIR(facts.st_mode)
               ? Status()
               : wrong(key, path, "is not a directory; name another path, or remove what is there");
  if (errno == ENOENT && missing == Missing::kIsMade) return check_parent(key, path);
  if (errno == ENOENT) return wrong(key, path, "does not exist; make the directory, or mount it");
  if (errno == ENOTCONN)
    return wrong(key, path,
                 "lies on a mount whose fuse daemon has died; unmount it (umount -l) and start it "
                 "again");
  return wrong(key, path,
               std::string("can't be looked at (") + std::strerror(errno) +
                   "); name another path, or let this user pass its directories");
}

// Before anything else is asked of it: what hangs is told, and keeps nobody waiting.
Status check_store_answers(const Config& config) {
  if (ask_file_system(config.store_root, kAnswerNs) != ETIMEDOUT) return {};
  return wrong("store.root", config.store_root,
               "lies on a file system that does not answer; look after its fuse daemon or its "
               "server, or set store.kind = \"none\"");
}

// What can be known of 3FS without opening anything there.
Status check_usrbio(const Config& config) {
  struct stat facts {};
  if (config.store_kind != StoreKind::kNone && !config.usrbio_library.empty() &&
      ::stat(config.usrbio_library.c_str(), &facts) != 0)
    return wrong("store.usrbio.library", config.usrbio_library,
                 std::string("can't be looked at (") + std::strerror(errno) +
                     "); name the library's file or its directory, or set store.usrbio.client = "
                     "\"builtin\"");
  if (config.store_kind != StoreKind::kUsrbio) return {};
  const Result<std::string> mount = usrbio::mount_point_of(config.store_root);
  if (!mount) return mount.status();
  if (!mount->empty()) return {};
  return wrong("store.root", config.store_root,
               "lies on no 3FS mount, which store.kind = \"usrbio\" needs; mount 3FS there, name a "
               "directory below a mount, or set store.kind = \"file\"");
}

Status check_socket(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || S_ISSOCK(facts.st_mode)) return {};
  return wrong("daemon.socket", path,
               S_ISDIR(facts.st_mode)
                   ? "is a directory; name a file in it, such as \"" + path + "/kvsidecar.sock\""
                   : "is something else than a socket; remove it, or name another path");
}

}  // namespace

Status check_places(const Config& config) {
  Status status = check_directory("daemon.runtime_dir", config.runtime_dir, Missing::kIsMade);
  if (status.ok()) status = check_directory("daemon.state_dir", config.state_dir, Missing::kIsMade);
  if (status.ok())
    status = check_directory("host_pool.directory", config.pool_directory, Missing::kIsWrong);
  if (status.ok() && config.store_kind != StoreKind::kNone) status = check_store_answers(config);
  if (status.ok() && config.store_kind != StoreKind::kNone)
    status = check_directory("store.root", config.store_root, Missing::kIsWrong);
  if (status.ok() && config.store_kind != StoreKind::kNone)
    status = check_store_root(config.store_root, config.state_dir);
  if (status.ok()) status = check_usrbio(config);
  return status.ok() ? check_socket(config.socket) : status;
}

std::string changed_keys(const Config& config) {
  const Config defaults;
  std::string out;
  for (const ConfigKey& key : config_keys()) {
    std::string value = print_value(config, key);
    if (value == print_value(defaults, key)) continue;
    if (key.type != KeyType::kText && value.size() > 2 && value.front() == '"')
      value = value.substr(1, value.size() - 2);  // a size or a word needs no quotes
    out += " " + std::string(key.section) + "." + key.name + "=" + value;
  }
  return out;
}

}  // namespace kvsidecar
