// SPDX-License-Identifier: Apache-2.0
#include <system_error>
#include <thread>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kThreadsMax = 16;

struct Discarded {
  std::vector<UniqueFd> fds;
  Discarded* next = nullptr;
};

// All seq_cst: whoever adds looks at the threads afterwards, a thread that ends at what was added.
std::atomic<Discarded*> discarded{nullptr};
std::atomic<uint32_t> threads{0};

void add(std::vector<UniqueFd> fds) {
  auto* const added = new Discarded{std::move(fds), discarded.load()};
  while (!discarded.compare_exchange_weak(added->next, added)) {
  }
}

void close_all() {
  for (Discarded* at = discarded.exchange(nullptr); at != nullptr;) {
    const std::unique_ptr<Discarded> closed(at);
    at = at->next;
  }
}

bool take_thread() {
  if (threads.fetch_add(1) < kThreadsMax) return true;
  threads.fetch_sub(1);
  return false;
}

void turn_thread() {
  do {
    close_all();
    threads.fetch_sub(1);
  } while (discarded.load() != nullptr && take_thread());
}

}  // namespace

void discard_fd(UniqueFd fd) {
  std::vector<UniqueFd> one;
  one.push_back(std::move(fd));
  discard_fds(std::move(one));
}

void discard_fds(std::vector<UniqueFd> fds) {
  std::erase_if(fds, [](const UniqueFd& fd) { return !fd; });
  if (fds.empty()) return;
  add(std::move(fds));
  if (!take_thread()) return;
  try {
    std::thread(turn_thread).detach();
  } catch (const std::system_error&) {
    threads.fetch_sub(1);  // none is to be had: the next one closes these too
  }
}

}  // namespace kvsidecar
