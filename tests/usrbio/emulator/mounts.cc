// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/mounts.h"

#include <fcntl.h>

#include <filesystem>
#include <sstream>

namespace kvsidecar::emulator {

namespace fs = std::filesystem;

namespace {
constexpr const char* kVirtual = "/3fs-virt";
}

Mounts::Mounts(const std::string& folders) {
  std::istringstream list(folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    std::error_code wrong;
    const fs::path resolved = fs::canonical(folder, wrong);
    if (!wrong) mounts_.push_back(resolved.string());
  }
  make_links_folders();
}

std::string Mounts::holding(const std::string& path) const {
  for (const std::string& mount : mounts_) {
    if (path == mount || path.rfind(mount + "/", 0) == 0) return mount;
  }
  return {};
}

std::string Mounts::links(const std::string& mount) const {
  std::error_code wrong;
  const std::string resolved = fs::canonical(mount, wrong).string();
  for (const std::string& known : mounts_) {
    if (!wrong && resolved == known) return known + kVirtual + "/iovs";
  }
  return {};
}

void Mounts::take_links_away() {
  std::error_code ignored;
  for (const std::string& mount : mounts_) fs::remove_all(mount + kVirtual, ignored);
}

void Mounts::make_links_folders() {
  std::error_code ignored;
  for (const std::string& mount : mounts_) {
    fs::create_directories(mount + kVirtual + "/iovs", ignored);
    fs::permissions(mount + kVirtual + "/iovs", fs::perms::all, ignored);
  }
}

void Mounts::keep_open(const std::string& mount) {
  const std::string folder = links(mount);
  std::lock_guard hold(lock_);
  if (!folder.empty() && kept_open_.insert(folder).second) {
    static_cast<void>(::open(folder.c_str(), O_RDONLY | O_DIRECTORY));
  }
}

}  // namespace kvsidecar::emulator
