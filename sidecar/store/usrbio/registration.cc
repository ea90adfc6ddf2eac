// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/registration.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvsidecar::usrbio {
namespace {

constexpr int kUnlinkTries = 3;

Status refused(const Mount& mount, const std::string& shared_memory, int error) {
  const std::string what = "3FS at " + mount.point();
  switch (error) {
    case ENOTCONN:
    case ECONNABORTED:
      return {Code::kUnavailable, what + " doesn't answer: its fuse daemon has died"};
    case EMFILE:
      return {Code::kUnavailable, what +
                                      " takes no more memories or rings: its table (iov_limit "
                                      "in the fuse daemon's config) is full"};
    case EACCES:
      return {Code::kDenied, what + " could not map " + shared_memory +
                                 ": its fuse daemon runs as neither root nor this user, or its "
                                 "limit of memory is reached"};
    case EINVAL:
    case ENOENT:
      return {Code::kUnavailable,
              what + " doesn't find " + shared_memory + " (" + std::strerror(error) +
                  "): let its fuse daemon and this process see the same /dev/shm"};
    case EPERM:
    case EROFS:
      return {Code::kDenied, what + " lets this user register nothing (" + std::strerror(error) +
                                 "): its fuse daemon is read-only or forbids it"};
    default:
      return os_error("registering " + shared_memory + " with 3FS at " + mount.point(), error,
                      Code::kUnavailable);
  }
}

// What isn't taken away stays in the daemon's table until this process ends: so another try is
// worth it.
void take_away(const Mount& mount, const std::string& key) {
  for (int tries = 0; tries < kUnlinkTries; ++tries)
    if (::unlinkat(mount.registry(), key.c_str(), 0) == 0 || errno == ENOENT || errno == ENOTCONN)
      return;
}

}  // namespace

Registration::Registration(std::shared_ptr<Mount> mount, std::string key)
    : mount_(std::move(mount)), key_(std::move(key)) {}

Registration::~Registration() { take_away(*mount_, key_); }

Result<std::unique_ptr<Registration>> Registration::make(std::shared_ptr<Mount> mount,
                                                         std::string key,
                                                         const std::string& shared_memory,
                                                         int* error) {
  const int injected = mount->faults().fail("usrbio.register");
  // By the folder's handle, not by its path: the mount point may be a plain folder by now.
  if (injected != 0 || ::symlinkat(shared_memory.c_str(), mount->registry(), key.c_str()) != 0) {
    const int failed = injected ? injected : errno;
    if (error != nullptr) *error = failed;
    take_away(*mount, key);  // it may have been done all the same
    return refused(*mount, shared_memory, failed);
  }
  return std::unique_ptr<Registration>(new Registration(std::move(mount), std::move(key)));
}

Status check_shared_memory(const std::string& path, uint64_t bytes) {
  const std::string folder = kSharedMemory;
  if (!path.starts_with(folder) || path.size() == folder.size() ||
      path.find('/', folder.size()) != std::string::npos)
    return invalid("3FS takes memory from files directly under /dev/shm only, not from " + path);
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return os_error("looking at " + path, errno);
  if (!S_ISREG(facts.st_mode))
    return invalid(path + " is no regular file: 3FS takes memory from regular files only");
  if (bytes == 0 || static_cast<uint64_t>(facts.st_size) < bytes)
    return invalid(path + " has " + std::to_string(facts.st_size) + " bytes, " +
                   std::to_string(bytes) + " were to be registered: 1 to all of them");
  return {};
}

Result<RegisteredMemory> register_shared_memory(std::shared_ptr<Mount> mount,
                                                const std::string& path, uint64_t bytes) {
  const Status checked = check_shared_memory(path, bytes);
  if (!checked.ok()) return checked;
  RegisteredMemory made{make_id(), nullptr};
  auto registration = Registration::make(std::move(mount), memory_key(made.id), path);
  if (!registration) return registration.status();
  made.registration = registration.take();
  return made;
}

}  // namespace kvsidecar::usrbio
