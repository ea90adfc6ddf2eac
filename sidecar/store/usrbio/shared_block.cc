// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/shared_block.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {

std::string prefix_of(const std::string& pool) { return "kvsidecar." + pool + ".bounce-"; }

// One that a living daemon has locked stays.
void remove_left_over(int directory, const char* name) {
  const UniqueFd fd(::openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return;
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid()) return;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) (void)::unlinkat(directory, name, 0);
}

}  // namespace

Result<std::unique_ptr<SharedBlock>> SharedBlock::create(const std::string& directory,
                                                         const std::string& pool, uint32_t number,
                                                         uint64_t bytes) {
  std::unique_ptr<SharedBlock> block(new SharedBlock);
  const std::string path = directory + "/" + prefix_of(pool) + std::to_string(number);
  block->fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!block->fd_)
    return invalid("the store's buffers " + path + " can't be made: " + std::strerror(errno) +
                   (errno == EEXIST ? "; another daemon with this host_pool.name uses it: give one "
                                      "of them another name"
                                    : "; let this user write there"));
  block->path_ = path;
  (void)::flock(block->fd_.get(), LOCK_EX | LOCK_NB);
  if (const int error =
          ::fallocate(block->fd_.get(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno)
    return invalid("the store's buffers " + path + " of " + std::to_string(bytes) +
                   " bytes find no room: " + std::strerror(error) + "; make " + directory +
                   " larger, or host_pool.bytes smaller");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd_.get(), 0);
  if (memory == MAP_FAILED) return os_error("mapping " + path, errno);
  block->memory_ = {static_cast<std::byte*>(memory), bytes};
  return block;
}

SharedBlock::~SharedBlock() {
  if (!memory_.empty()) (void)::munmap(memory_.data(), memory_.size());
  if (!path_.empty()) (void)::unlink(path_.c_str());
}

void sweep_shared_blocks(const std::string& directory, const std::string& pool) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd), ::closedir);
  const std::string prefix = prefix_of(pool);
  while (const dirent* entry = ::readdir(entries.get()))
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0)
      remove_left_over(fd, entry->d_name);
}

}  // namespace kvsidecar
