// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/leftovers.h"

#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kvsidecar::fake3fs {
namespace {

constexpr std::string_view kBegin = "kvsidecar.test-mini3fs-";

}  // namespace

Result<std::string> make_test_folder() {
  std::string path = std::filesystem::temp_directory_path() /
                     (std::string(kBegin) + std::to_string(::getpid()) + "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) return os_error("mkdtemp " + path, errno);
  return path;
}

void remove_test_folder(const std::string& folder) {
  const std::string mount = folder + "/mount";
  ::umount2(mount.c_str(), MNT_DETACH);
  std::ifstream names(folder + "/state/semaphores");
  for (std::string path; std::getline(names, path);)
    if (path.starts_with("/dev/shm/sem.hf3fs-submit-ios.")) ::unlink(path.c_str());
  // Never below something that is still mounted.
  if (::rmdir(mount.c_str()) != 0 && errno != ENOENT) return;
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

void remove_folders_of_dead_tests() {
  std::error_code error;
  const auto temporary = std::filesystem::temp_directory_path();
  for (const auto& entry : std::filesystem::directory_iterator(temporary, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kBegin)) continue;
    const pid_t pid = std::atoi(name.c_str() + kBegin.size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) remove_test_folder(entry.path());
  }
}

}  // namespace kvsidecar::fake3fs
