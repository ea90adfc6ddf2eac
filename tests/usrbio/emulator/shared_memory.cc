// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace kvsidecar::emulator {

namespace {

constexpr const char* kPrefix = "hf3fs-iov-";
constexpr uint8_t kMark[] = {0x6b, 0x76, 0x73, 0x65};

int map_file(int fd, size_t bytes, Mapping& mapping) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (base == MAP_FAILED) return -error;
  mapping = {static_cast<std::byte*>(base), bytes};
  return 0;
}

}  // namespace

fake3fs::Id random_id() {
  fake3fs::Id id;
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) std::abort();
  return id;
}

std::string text_of(const fake3fs::Id& id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string written;
  for (size_t i = 0; i < id.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) written += '-';
    written += kDigits[id[i] >> 4];
    written += kDigits[id[i] & 15];
  }
  return written;
}

std::string shm_name() {
  fake3fs::Id id = random_id();
  const pid_t self = ::getpid();
  std::copy_n(kMark, sizeof kMark, id.begin());
  std::memcpy(&id[id.size() - sizeof self], &self, sizeof self);
  return kPrefix + text_of(id);
}

void sweep_shared() {
  const std::string ours = std::string(kPrefix) + "6b767365-";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(ours, 0) != 0 || name.size() < 8) continue;
    const unsigned long digits = std::strtoul(name.substr(name.size() - 8).c_str(), nullptr, 16);
    const auto maker = static_cast<pid_t>(__builtin_bswap32(static_cast<uint32_t>(digits)));
    if (::kill(maker, 0) != 0 && errno == ESRCH) std::filesystem::remove(entry.path(), ignored);
  }
}

int make_shared(const std::string& name, size_t bytes, Mapping& mapping) {
  const int fd = ::shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
  if (fd < 0) return -EIO;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    ::close(fd);
    ::shm_unlink(("/" + name).c_str());
    return -EIO;
  }
  return map_file(fd, bytes, mapping) == 0 ? 0 : -EIO;
}

int map_shared(const std::string& path, size_t bytes, Mapping& mapping) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? -errno : map_file(fd, bytes, mapping);
}

void unmap(Mapping& mapping) {
  if (mapping.base != nullptr) ::munmap(mapping.base, mapping.bytes);
  mapping = {};
}

}  // namespace kvsidecar::emulator
