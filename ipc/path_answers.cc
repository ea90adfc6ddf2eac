// SPDX-License-Identifier: Apache-2.0
#include "ipc/path_answers.h"

#include <poll.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

struct Answer {
  UniqueFd told;
  std::atomic<int> error{ETIMEDOUT};
};

void ask(const std::string& path, Answer& answer) {
  struct statvfs facts {};
  answer.error.store(::statvfs(path.c_str(), &facts) == 0 ? 0 : errno);
  eventfd_signal(answer.told.get());
}

}  // namespace

int ask_file_system(const std::string& path, uint64_t wait_ns) {
  auto told = make_eventfd();
  if (!told) return EMFILE;
  auto answer = std::make_shared<Answer>();
  answer->told = told.take();
  try {
    std::thread([path, answer] { ask(path, *answer); }).detach();
  } catch (const std::system_error&) {
    return EAGAIN;
  }
  const uint64_t until_ns = monotonic_ns() + wait_ns;
  for (uint64_t now_ns = monotonic_ns(); now_ns < until_ns; now_ns = monotonic_ns()) {
    pollfd waiting{.fd = answer->told.get(), .events = POLLIN, .revents = 0};
    const timespec left{.tv_sec = static_cast<time_t>((until_ns - now_ns) / 1'000'000'000),
                        .tv_nsec = static_cast<long>((until_ns - now_ns) % 1'000'000'000)};
    if (::ppoll(&waiting, 1, &left, nullptr) > 0) break;
  }
  return answer->error.load();
}

}  // namespace kvsidecar
