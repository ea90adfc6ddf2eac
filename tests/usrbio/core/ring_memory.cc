// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/ring_memory.h"

#include <atomic>
#include <cstring>

namespace kvsidecar::fake3fs {
namespace {

enum Index : size_t { kSqeHead, kSqeTail, kCqeHead, kCqeTail };

int32_t load(const int32_t& word) {
  return std::atomic_ref<int32_t>(const_cast<int32_t&>(word)).load(std::memory_order_seq_cst);
}

void store(int32_t& word, uint32_t value) {
  std::atomic_ref<int32_t>(word).store(static_cast<int32_t>(value), std::memory_order_seq_cst);
}

std::optional<uint32_t> checked(int32_t index, uint32_t below) {
  if (index < 0 || static_cast<uint32_t>(index) >= below) return std::nullopt;
  return static_cast<uint32_t>(index);
}

}  // namespace

Result<RingMemory> RingMemory::over(std::span<std::byte> mapped) {
  const uint64_t entries = ring_entries(mapped.size());
  if (entries == 0 || entries > 1u << 30)
    return invalid("a ring's file has " + std::to_string(mapped.size()) +
                   " bytes; it must have 4144 + 96 * (entries + 1)");
  if (reinterpret_cast<uintptr_t>(mapped.data()) % alignof(IoArgs) != 0)
    return invalid("a ring's memory must be aligned to 8 bytes");
  return RingMemory(mapped.data(), static_cast<uint32_t>(entries + 1));
}

int32_t& RingMemory::index(size_t number) const {
  return reinterpret_cast<int32_t*>(base_)[number];
}

IoArgs* RingMemory::args() const { return reinterpret_cast<IoArgs*>(base_ + kHeadBytes); }

IoCqe* RingMemory::cqes() const { return reinterpret_cast<IoCqe*>(args() + places_); }

IoSqe* RingMemory::sqes() const { return reinterpret_cast<IoSqe*>(cqes() + places_); }

sem_t* RingMemory::semaphore() const { return reinterpret_cast<sem_t*>(sqes() + places_); }

void RingMemory::start() {
  for (size_t number : {kSqeHead, kSqeTail, kCqeHead, kCqeTail}) store(index(number), 0);
  ::sem_init(semaphore(), 1, 0);
}

std::optional<uint32_t> RingMemory::sqe_head() const {
  return checked(load(index(kSqeHead)), places_);
}

std::optional<uint32_t> RingMemory::completions_waiting() const {
  const auto head = checked(load(index(kCqeHead)), places_);
  const auto tail = checked(load(index(kCqeTail)), places_);
  if (!head || !tail) return std::nullopt;
  return distance(*tail, *head);
}

std::optional<RingMemory::Submission> RingMemory::submission(uint32_t place) const {
  IoSqe sqe;
  std::memcpy(&sqe, sqes() + place, sizeof(sqe));
  const auto slot = checked(sqe.index, entries());
  if (!slot) return std::nullopt;
  Submission found;
  found.slot = sqe.index;
  found.user = sqe.user;
  std::memcpy(&found.args, args() + *slot, sizeof(found.args));
  return found;
}

void RingMemory::set_sqe_tail(uint32_t place) { store(index(kSqeTail), place); }

bool RingMemory::append(int32_t slot, int64_t result, uint64_t user) {
  const auto waiting = completions_waiting();
  const auto head = checked(load(index(kCqeHead)), places_);
  if (!waiting || !head || *waiting >= entries()) return false;
  IoCqe& cqe = cqes()[*head];
  cqe.index = slot;
  cqe.result = result;
  cqe.user = user;
  store(index(kCqeHead), next(*head));
  return true;
}

void RingMemory::post() { ::sem_post(semaphore()); }

}  // namespace kvsidecar::fake3fs
