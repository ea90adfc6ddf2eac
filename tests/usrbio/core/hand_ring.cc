// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/hand_ring.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace kvsidecar::fake3fs {
namespace {

std::atomic_ref<int32_t> word(std::byte* at) {
  return std::atomic_ref<int32_t>(*reinterpret_cast<int32_t*>(at));
}

constexpr time_t kGiveUpSeconds = 20;

}  // namespace

HandRing::HandRing(std::span<std::byte> memory, uint32_t entries)
    : base_(memory.data()), places_(entries + 1) {
  for (int32_t slot = 0; slot < static_cast<int32_t>(entries); ++slot) free_.insert(slot);
}

int32_t HandRing::index(int number) const { return word(base_ + 4 * number).load(); }

void HandRing::set_index(int number, int32_t value) { word(base_ + 4 * number).store(value); }

void HandRing::set_slot(uint32_t place, int32_t slot) {
  std::memcpy(submission(place), &slot, sizeof(slot));
}

int HandRing::prepare(const Request& request) {
  const int32_t head = index(0);
  const auto next = static_cast<int32_t>((static_cast<uint64_t>(head) + 1) % places_);
  if (next == index(1) || free_.empty()) return -EAGAIN;
  const int32_t slot = *free_.begin();
  free_.erase(free_.begin());
  std::byte* args = base_ + 16 + 56 * slot;
  std::memcpy(args, request.buffer.data(), 16);
  std::memcpy(args + 16, &request.buffer_offset, 8);
  std::memcpy(args + 24, &request.inode, 8);
  std::memcpy(args + 32, &request.file_offset, 8);
  std::memcpy(args + 40, &request.bytes, 8);
  std::memcpy(args + 48, &request.user, 8);
  std::byte* sqe = submission(static_cast<uint32_t>(head));
  std::memcpy(sqe, &slot, 4);
  std::memcpy(sqe + 8, &request.user, 8);
  set_index(0, next);
  return slot;
}

std::vector<HandRing::Done> HandRing::take() {
  std::vector<Done> taken;
  for (int32_t tail = index(3); tail != index(2);) {
    const std::byte* cqe = completion(static_cast<uint32_t>(tail));
    Done done;
    std::memcpy(&done.slot, cqe, 4);
    std::memcpy(&done.result, cqe + 8, 8);
    std::memcpy(&done.user, cqe + 16, 8);
    taken.push_back(done);
    free_.insert(done.slot);
    tail = static_cast<int32_t>((static_cast<uint64_t>(tail) + 1) % places_);
    set_index(3, tail);
  }
  return taken;
}

std::vector<HandRing::Done> HandRing::wait(size_t count) {
  std::vector<Done> taken = take();
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kGiveUpSeconds;
  while (taken.size() < count && ::sem_timedwait(semaphore(), &until) == 0)
    for (const Done& done : take()) taken.push_back(done);
  return taken;
}

int HandRing::posts() const {
  int value = 0;
  ::sem_getvalue(semaphore(), &value);
  return value;
}

}  // namespace kvsidecar::fake3fs
