// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/submit_semaphore.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

Status unusable(const Mount& mount, const char* link, const std::string& why) {
  return {Code::kUnavailable, "the semaphore " + std::string(link) + " of 3FS at " + mount.point() +
                                  " can't be used: " + why};
}

}  // namespace

Result<std::unique_ptr<SubmitSemaphore>> SubmitSemaphore::open(const Mount& mount, int priority) {
  const char* link = priority == 0  ? "submit-ios"
                     : priority < 0 ? "submit-ios.ph"
                                    : "submit-ios.pl";
  char target[PATH_MAX];
  const int injected = mount.faults().fail("usrbio.semaphore.link");
  const ssize_t length =
      injected ? -1 : ::readlinkat(mount.registry(), link, target, sizeof target);
  if (length < 0) return unusable(mount, link, std::strerror(injected ? injected : errno));
  const std::string path(target, static_cast<size_t>(length));
  const size_t prefix = std::strlen(kSemaphorePrefix);
  if (!path.starts_with(kSemaphorePrefix) || path.size() == prefix ||
      path.find('/', prefix) != std::string::npos)
    return unusable(mount, link, "it is " + path + ", not a file directly under /dev/shm");

  UniqueFd file;
  int error = mount.faults().fail("usrbio.semaphore.open");
  if (error == 0) {
    file.reset(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) error = errno;
  }
  if (error != 0)
    return unusable(mount, link,
                    path + " can't be opened (" + std::strerror(error) +
                        "): let the fuse daemon and this process see the same /dev/shm");
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<uint64_t>(facts.st_size) < sizeof(sem_t))
    return unusable(mount, link, path + " is no semaphore");
  auto memory = MappedMemory::map(file.get(), 0, sizeof(sem_t), Access::kReadWrite);
  if (!memory) return memory.status();
  return std::unique_ptr<SubmitSemaphore>(new SubmitSemaphore(memory.take()));
}

void SubmitSemaphore::post() {
  // EOVERFLOW means that the daemon hasn't looked for two thousand million posts: it is told.
  ::sem_post(reinterpret_cast<sem_t*>(memory_.data()));
}

}  // namespace kvsidecar::usrbio
