// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/submit_semaphores.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "ipc/os.h"

namespace kvsidecar::fake3fs {
namespace {

constexpr const char* kPathBegin = "/dev/shm/sem";

std::string random_uuid() {
  std::array<std::byte, 16> bytes;
  random_bytes(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char pair[3];
    std::snprintf(pair, sizeof(pair), "%02x", static_cast<unsigned>(bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += pair;
  }
  return text;
}

void remove_old(const std::string& names_file) {
  std::ifstream file(names_file);
  for (std::string path; std::getline(file, path);)
    if (path.starts_with(kPathBegin)) ::unlink(path.c_str());
}

timespec in_milliseconds(long ms) {
  timespec at{};
  ::clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += ms * 1'000'000;
  at.tv_sec += at.tv_nsec / 1'000'000'000;
  at.tv_nsec %= 1'000'000'000;
  return at;
}

}  // namespace

Result<std::unique_ptr<SubmitSemaphores>> SubmitSemaphores::make(Server& server, Faults& faults,
                                                                 const std::string& names_file) {
  remove_old(names_file);
  std::unique_ptr<SubmitSemaphores> made(new SubmitSemaphores(server, faults));
  for (std::string& path : made->paths_)
    path = std::string(kPathBegin) + ".hf3fs-submit-ios." + random_uuid();
  {
    std::ofstream file(names_file, std::ios::trunc);
    for (const std::string& path : made->paths_) file << path << "\n";
  }
  for (size_t i = 0; i < kPriorities; ++i) {
    const std::string name = "/" + made->paths_[i].substr(std::string(kPathBegin).size() + 1);
    sem_t* semaphore = ::sem_open(name.c_str(), O_CREAT | O_EXCL, 0666, 0);
    if (semaphore == SEM_FAILED) return os_error("sem_open " + name, errno);
    made->semaphores_[i] = semaphore;
    made->watchers_[i] = std::thread([&made = *made, i] { made.watch(static_cast<Priority>(i)); });
  }
  return made;
}

SubmitSemaphores::~SubmitSemaphores() {
  stopping_.store(true);
  for (size_t i = 0; i < kPriorities; ++i) {
    if (semaphores_[i] == nullptr) continue;
    ::sem_post(semaphores_[i]);
    watchers_[i].join();
    ::sem_close(semaphores_[i]);
    ::unlink(paths_[i].c_str());
  }
}

void SubmitSemaphores::watch(Priority priority) {
  sem_t* semaphore = semaphores_[static_cast<size_t>(priority)];
  while (!stopping_.load()) {
    // Upstream wakes each millisecond and looks at nothing then; here only where a fault wants it.
    const timespec until = in_milliseconds(faults_.scans_when_idle() ? 1 : 50);
    if (::sem_timedwait(semaphore, &until) == 0)
      server_.submitted(priority);
    else if (errno == ETIMEDOUT)
      server_.idle(priority);
  }
}

}  // namespace kvsidecar::fake3fs
