// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/client_ring.h"

#include <algorithm>
#include <cerrno>

namespace kvsidecar::emulator {

namespace {

constexpr size_t kIndices = 4 * sizeof(int32_t), kSlack = 4096;

std::atomic<int32_t>* index_at(std::byte* memory, size_t nth) {
  static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t));
  return reinterpret_cast<std::atomic<int32_t>*>(memory + nth * sizeof(int32_t));
}

timespec now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

bool before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace

size_t ClientRing::bytes(int entries) {
  const size_t places = static_cast<size_t>(entries) + 1;
  return kIndices + places * (sizeof(Request) + sizeof(hf3fs_cqe) + sizeof(Submission)) +
         sizeof(sem_t) + kSlack;
}

ClientRing::ClientRing(std::byte* memory, int entries)
    : places_(entries + 1),
      submit_head_(index_at(memory, 0)),
      submit_tail_(index_at(memory, 1)),
      done_head_(index_at(memory, 2)),
      done_tail_(index_at(memory, 3)),
      requests_(reinterpret_cast<Request*>(memory + kIndices)),
      done_(reinterpret_cast<hf3fs_cqe*>(requests_ + places_)),
      submitted_(reinterpret_cast<Submission*>(done_ + places_)),
      posted_(reinterpret_cast<sem_t*>(submitted_ + places_)) {
  for (int32_t slot = 0; slot < entries; ++slot) free_.insert(slot);
}

int ClientRing::prepare(const Request& request) {
  const int32_t head = submit_head_->load();
  const int32_t next = (head + 1) % places_;
  if (next == submit_tail_->load()) return -EAGAIN;
  int32_t slot = 0;
  {
    std::lock_guard hold(lock_);
    if (free_.empty()) return -EAGAIN;
    slot = *free_.begin();
    free_.erase(free_.begin());
  }
  requests_[slot] = request;
  submitted_[head] = {slot, 0, request.userdata};
  submit_head_->store(next);
  return slot;
}

bool ClientRing::ready() const { return done_tail_->load() != done_head_->load(); }

bool ClientRing::take(hf3fs_cqe& into) {
  int32_t tail = done_tail_->load();
  while (tail != done_head_->load()) {
    // `reserved` is left as the caller had it, as upstream.
    const hf3fs_cqe& found = done_[tail];
    into.index = found.index;
    into.result = found.result;
    into.userdata = found.userdata;
    if (done_tail_->compare_exchange_strong(tail, (tail + 1) % places_)) {
      std::lock_guard hold(lock_);
      free_.insert(into.index);
      return true;
    }
  }
  return false;
}

void ClientRing::sleep_a_slice(const timespec* until) {
  timespec slice = now();
  slice.tv_nsec += 1'000'000;
  if (slice.tv_nsec >= 1'000'000'000) {
    slice.tv_nsec -= 1'000'000'000;
    ++slice.tv_sec;
  }
  if (until != nullptr && before(*until, slice)) slice = *until;
  ::sem_timedwait(posted_, &slice);
}

int ClientRing::wait(hf3fs_cqe* into, int into_count, int min_results, const timespec* until,
                     const std::function<void()>& drained) {
  const int enough = std::min(min_results, into_count);
  int filled = 0;
  for (;;) {
    const int earlier = filled;
    while (filled < into_count && take(into[filled])) ++filled;
    if (filled > earlier) drained();
    if (filled == into_count || (filled >= enough && !ready())) return filled;
    if (until != nullptr && !before(now(), *until)) return filled;
    if (!ready()) sleep_a_slice(until);
  }
}

}  // namespace kvsidecar::emulator
