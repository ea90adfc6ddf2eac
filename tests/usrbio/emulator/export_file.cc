// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/usrbio/emulator/export.h"

namespace {
constexpr int kRangesMax = 1000;  // of one ioctl of punchhole
}

using namespace kvsidecar;
using namespace kvsidecar::emulator;

KVS_EXPORT bool hf3fs_is_hf3fs(int fd) {
  return calls().failure() == 0 && !state().mount_of(fd).empty();
}

KVS_EXPORT int hf3fs_extract_mount_point(char* into, int bytes, const char* path) {
  if (calls().failure() != 0) return -1;
  namespace fs = std::filesystem;
  std::error_code wrong;
  const fs::path resolved = fs::canonical(path, wrong);
  const std::string mount = state().mounts.holding(wrong ? path : resolved.string());
  const bool dead = !mount.empty() && !state().daemon.alive();
  if (dead) wrong = std::make_error_code(std::errc::not_connected);
  if (wrong && !calls().deadly()) return -1;
  if (wrong) throw fs::filesystem_error("canonical", path, wrong);
  // mountinfo writes a space as \040, which upstream doesn't read back.
  if (mount.empty() || mount.find(' ') != std::string::npos) return -1;
  const int needed = static_cast<int>(mount.size()) + 1;
  if (needed <= bytes) std::memcpy(into, mount.c_str(), static_cast<size_t>(needed));
  return needed;
}

KVS_EXPORT int hf3fs_reg_fd(int fd, uint64_t /*flags*/) {
  if (const int error = calls().failure(); error != 0) return error;
  if (state().mount_of(fd).empty()) return EBADF;
  std::shared_ptr<const Duplicate> made;
  const int wrong = state().descriptors.add(fd, made);
  return wrong != 0 ? wrong : -made->fd();
}

KVS_EXPORT void hf3fs_dereg_fd(int fd) {
  if (!state().mount_of(fd).empty()) state().descriptors.remove(fd);
}

KVS_EXPORT int hf3fs_hardlink(const char* target, const char* link_name) {
  if (const int error = calls().failure(); error != 0) return error;
  return ::link(target, link_name) == 0 ? 0 : errno;
}

KVS_EXPORT int hf3fs_punchhole(int fd, int count, const size_t* start, const size_t* end,
                               size_t /*flags*/) {
  if (const int error = calls().failure(); error != 0) return error;
  if (count > kRangesMax) return -calls().die(SIGABRT);
  if (state().mount_of(fd).empty()) return EBADF;
  struct stat about {};
  if (::fstat(fd, &about) != 0) return errno;
  const std::shared_ptr<OpenFile> file = state().files.open(fd, about.st_ino);
  if (file == nullptr || file->data() == nullptr) return EINVAL;
  for (int i = 0; i < count; ++i) {
    if (const int wrong = file->data()->punch(start[i], end[i]); wrong != 0) return -wrong;
  }
  return 0;
}
