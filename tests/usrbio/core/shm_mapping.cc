// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/shm_mapping.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

namespace kvsidecar::fake3fs {

int map_shm(const std::string& path, std::shared_ptr<ShmMapping>& mapping) {
  constexpr std::string_view kFolder = "/dev/shm/";
  if (!path.starts_with(kFolder)) return -EINVAL;
  const std::string name = path.substr(kFolder.size());
  // The daemon opens it by shm_open, which takes no folders.
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    return -EINVAL;
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return -EINVAL;
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd || ::fstat(fd.get(), &facts) != 0 || facts.st_size == 0) return -EACCES;
  auto mapped =
      MappedMemory::map(fd.get(), 0, static_cast<uint64_t>(facts.st_size), Access::kReadWrite);
  if (!mapped.ok()) return -EACCES;
  mapping = std::make_shared<ShmMapping>();
  mapping->memory = mapped.take();
  return 0;
}

}  // namespace kvsidecar::fake3fs
