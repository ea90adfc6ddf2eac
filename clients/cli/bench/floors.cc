// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/floors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

namespace kvsidecar {
namespace {

constexpr uint32_t kCells = 64;
constexpr size_t kRecordBytes = 64;
constexpr uint64_t kPatienceNs = 5'000'000'000;
constexpr uint32_t kPausesPerLook = 1024;

struct alignas(64) Ring {
  alignas(64) std::atomic<uint64_t> position;
  alignas(64) std::atomic<uint32_t> bell;
  alignas(64) std::byte cells[kCells][kRecordBytes];
};
struct Pair {
  Ring there, back;
  std::atomic<uint32_t> end;
};

void send(Ring& ring, uint64_t position, const std::byte* record, bool spinning) {
  std::memcpy(ring.cells[position % kCells], record, kRecordBytes);
  ring.position.store(position + 1, std::memory_order_release);
  if (spinning) return;
  ring.bell.fetch_add(1);
  futex_wake(ring.bell);
}

// False when the other side is away or the end was called.
bool receive(Ring& ring, uint64_t position, std::byte* record, bool spinning,
             const std::atomic<uint32_t>& end) {
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  for (uint32_t looks = 1;; ++looks) {
    const uint32_t bell = ring.bell.load();
    if (ring.position.load(std::memory_order_acquire) > position) break;
    if (!spinning) futex_wait(ring.bell, bell, 10'000'000);
    if (looks % kPausesPerLook == 0 || !spinning)
      if (end.load() != 0 || monotonic_ns() > until_ns) return false;
    relax_cpu();
  }
  std::memcpy(record, ring.cells[position % kCells], kRecordBytes);
  return true;
}

}  // namespace

Result<std::unique_ptr<EchoFloor>> EchoFloor::start(bool spinning) {
  auto memory = SharedMemory::make((sizeof(Pair) + 4095) / 4096 * 4096);
  if (!memory) return memory.status();
  std::unique_ptr<EchoFloor> floor(new EchoFloor(memory.take(), spinning));
  Pair* pair = &floor->memory_.as<Pair>();
  auto child = Child::run([pair, spinning] {
    std::byte record[kRecordBytes];
    for (uint64_t position = 0;; ++position) {
      while (!receive(pair->there, position, record, spinning, pair->end))
        if (pair->end.load() != 0) return 0;
      send(pair->back, position, record, spinning);
    }
  });
  if (!child) return child.status();
  floor->child_ = std::make_unique<Child>(child.take());
  return floor;
}

EchoFloor::~EchoFloor() {
  memory_.as<Pair>().end.store(1);
  futex_wake(memory_.as<Pair>().there.bell);
}

Result<double> EchoFloor::round_trip_ns() {
  Pair& pair = memory_.as<Pair>();
  std::byte record[kRecordBytes] = {};
  const uint64_t begin = monotonic_ns();
  send(pair.there, position_, record, spinning_);
  if (!receive(pair.back, position_, record, spinning_, pair.end))
    return Status(Code::kTimeout, "the echoing process doesn't answer");
  ++position_;
  return static_cast<double>(monotonic_ns() - begin);
}

double memcpy_ns(const std::vector<Piece>& pieces, uint32_t threads) {
  const auto copy_share = [&](uint32_t share) {
    const size_t each = (pieces.size() + threads - 1) / threads;
    const size_t first = share * each, last = std::min(pieces.size(), first + each);
    for (size_t i = first; i < last; ++i)
      std::memcpy(pieces[i].to, pieces[i].from, pieces[i].bytes);
  };
  const uint64_t begin = monotonic_ns();
  std::vector<std::thread> others;
  for (uint32_t share = 1; share < threads; ++share) others.emplace_back(copy_share, share);
  copy_share(0);
  for (std::thread& other : others) other.join();
  return static_cast<double>(monotonic_ns() - begin);
}

BareTable::BareTable(const std::vector<std::byte>& keys)
    : slots_(std::bit_ceil(std::max<size_t>(keys.size() / 16 * 2, 16))), mask_(slots_.size() - 1) {
  for (size_t at = 0; at < keys.size(); at += 16) {
    uint64_t word[2];
    std::memcpy(word, keys.data() + at, 16);
    uint64_t slot = word[0] & mask_;
    while (slots_[slot].value != 0) slot = (slot + 1) & mask_;
    slots_[slot] = {word[0], word[1], at / 16 + 1};
  }
}

double BareTable::find_ns(const std::vector<std::byte>& keys, uint64_t& found) const {
  const uint64_t begin = monotonic_ns();
  for (size_t at = 0; at < keys.size(); at += 16) {
    uint64_t word[2];
    std::memcpy(word, keys.data() + at, 16);
    for (uint64_t slot = word[0] & mask_; slots_[slot].value != 0; slot = (slot + 1) & mask_) {
      if (slots_[slot].low != word[0] || slots_[slot].high != word[1]) continue;
      ++found;
      break;
    }
  }
  return static_cast<double>(monotonic_ns() - begin);
}

}  // namespace kvsidecar
