// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/usrbio/core/server.h"
#include "tests/usrbio/core/shm_mapping.h"
#include "tests/usrbio/core/worker_threads.h"
#include "tests/usrbio/emulator/idle_scans.h"
#include "tests/usrbio/emulator/shared_memory.h"

namespace kvsidecar::emulator {

namespace {

constexpr unsigned kWorkers = 4;

bool is_there(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0;
}

// The link of an iov whose block size isn't known; empty: there is none.
std::string find_link(const std::string& folder, const std::string& uuid) {
  if (is_there(folder + "/" + uuid)) return folder + "/" + uuid;
  std::error_code wrong;
  for (const auto& entry : std::filesystem::directory_iterator(folder, wrong)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(uuid + ".b", 0) == 0) return entry.path().string();
  }
  return {};
}

uint64_t block_size_of(const std::string& link) {
  const size_t at = link.rfind(".b");
  return at == std::string::npos ? 0 : std::strtoull(link.c_str() + at + 2, nullptr, 10);
}

}  // namespace

struct Daemon::Life {
  explicit Life(OpenFiles& files, fake3fs::Faults& faults, fake3fs::Counts& counts)
      : server(real_clock(), files, faults, counts),
        workers(std::make_unique<fake3fs::WorkerThreads>(server, kWorkers)),
        idle(server) {}

  int add_iov(const fake3fs::Id& id, uint64_t block_size, const std::string& target) {
    std::shared_ptr<fake3fs::ShmMapping> mapping;
    const int answer = fake3fs::map_shm(target, mapping);
    return answer != 0 ? answer : server.add_buffer(id, mapping->bytes(), block_size, mapping);
  }

  fake3fs::Server server;
  std::unique_ptr<fake3fs::WorkerThreads> workers;
  IdleScans idle;
};

std::shared_ptr<Daemon::Life> Daemon::life() const {
  std::lock_guard hold(lock_);
  if (life_ == nullptr && !dead_) {
    Daemon& self = const_cast<Daemon&>(*this);
    life_ = std::make_shared<Life>(files_, faults_, self.counts_);
    life_->idle.set_wanted(idle_scans_);
  }
  return life_;
}

int Daemon::link(const std::string& mount, const std::string& key, const std::string& target) {
  const std::string folder = mounts_.links(mount);
  if (folder.empty()) return -ENOENT;
  return ::symlink(target.c_str(), (folder + "/" + key).c_str()) == 0 ? 0 : -errno;
}

int Daemon::add_iov(const std::string& mount, const fake3fs::Id& id, uint64_t block_size,
                    const std::string& target) {
  const std::shared_ptr<Life> now = life();
  if (now == nullptr) return -ENOTCONN;
  std::string key = text_of(id);
  if (block_size != 0) key += ".b" + std::to_string(block_size);
  if (const int wrong = link(mount, key, target); wrong != 0) return wrong;
  const std::string place = mounts_.links(mount) + "/" + key;
  const int answer = now->add_iov(id, block_size, target);
  if (answer != 0) {
    ::unlink(place.c_str());
    return answer;
  }
  std::lock_guard hold(lock_);
  links_[id] = place;
  return 0;
}

int Daemon::add_ring(const std::string& mount, const fake3fs::Id& id, const std::string& key,
                     const fake3fs::RingOptions& options, const std::string& target) {
  const std::shared_ptr<Life> now = life();
  if (now == nullptr) return -ENOTCONN;
  if (const int wrong = link(mount, key, target); wrong != 0) return wrong;
  std::shared_ptr<fake3fs::ShmMapping> mapping;
  int answer = fake3fs::map_shm(target, mapping);
  if (answer == 0) answer = now->server.add_ring(id, mapping->bytes(), options, mapping);
  if (answer != 0) ::unlink((mounts_.links(mount) + "/" + key).c_str());
  return answer;
}

int Daemon::remove(const std::string& mount, const fake3fs::Id& id, const std::string& key) {
  const std::string place = mounts_.links(mount) + "/" + key;
  if (::unlink(place.c_str()) != 0) return -errno;
  {
    std::lock_guard hold(lock_);
    links_.erase(id);
  }
  const std::shared_ptr<Life> now = life();
  if (now != nullptr && now->server.remove_buffer(id) != 0) now->server.remove_ring(id);
  return 0;
}

void Daemon::look_for_iov(const std::string& mount, const fake3fs::Id& id) {
  const std::shared_ptr<Life> now = life();
  if (now == nullptr) return;
  {
    std::lock_guard hold(lock_);
    const auto known = links_.find(id);
    if (known != links_.end()) {
      if (is_there(known->second)) return;
      links_.erase(known);
      now->server.remove_buffer(id);
    }
  }
  const std::string found = find_link(mounts_.links(mount), text_of(id));
  if (found.empty()) return;
  std::error_code wrong;
  const std::string target = std::filesystem::read_symlink(found, wrong).string();
  if (wrong || now->add_iov(id, block_size_of(found), target) != 0) return;
  std::lock_guard hold(lock_);
  links_[id] = found;
}

bool Daemon::alive() const {
  std::lock_guard hold(lock_);
  return !dead_;
}

uint64_t Daemon::generation() const {
  std::lock_guard hold(lock_);
  return generation_;
}

void Daemon::submitted(uint64_t generation, fake3fs::Priority priority) {
  const std::shared_ptr<Life> now = life();
  if (now != nullptr && generation == this->generation()) now->server.submitted(priority);
}

void Daemon::release_stalled() {
  if (const std::shared_ptr<Life> now = life(); now != nullptr) now->server.release_stalled();
}

void Daemon::scan_at_idle(bool wanted) {
  std::lock_guard hold(lock_);
  idle_scans_ = wanted;
  if (life_ != nullptr) life_->idle.set_wanted(wanted);
}

void Daemon::kill() {
  std::shared_ptr<Life> last;
  {
    std::lock_guard hold(lock_);
    if (dead_) return;
    dead_ = true;
    ++generation_;
    links_.clear();
    last = std::move(life_);
    life_ = nullptr;
  }
  mounts_.take_links_away();
  files_.forget_all();
  if (last == nullptr) return;
  last->idle.set_wanted(false);
  last->workers.reset();
  for (const char* const now : {"iovs", "rings", "stalled"}) counts_.add(now, -counts_.get(now));
}

void Daemon::restart() {
  mounts_.make_links_folders();
  std::lock_guard hold(lock_);
  dead_ = false;
}

}  // namespace kvsidecar::emulator
