// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/plain_server.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

namespace kvsidecar {
namespace {

constexpr uint64_t kPatienceNs = 30'000'000'000;
constexpr uint64_t kBriefSpinNs = 20'000;
constexpr uint64_t kKeyBytes = 16;
constexpr uint64_t kHeadBytes = 16384;

enum : uint32_t { kPut, kGet, kFind };

struct Head {
  std::atomic<uint32_t> asked, done, end;
  uint32_t what, count, found;
  PlainServer::Copy copies[PlainServer::kPagesMax];
  std::byte keys[PlainServer::kKeysMax * kKeyBytes];
};
static_assert(sizeof(Head) <= kHeadBytes);

using Key = std::array<uint64_t, 2>;
struct KeyHash {
  size_t operator()(const Key& key) const { return key[0]; }
};
using Table = std::unordered_map<Key, uint32_t, KeyHash>;

Key key_at(const std::byte* keys, uint64_t number) {
  Key key;
  std::memcpy(key.data(), keys + number * kKeyBytes, kKeyBytes);
  return key;
}

uint32_t find_all(const Table& table, const Head& head) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < head.count; ++i)
    if (table.find(key_at(head.keys, i)) != table.end()) ++found;
  return found;
}

}  // namespace

std::byte* PlainServer::block(uint32_t number) {
  return memory_.data() + kHeadBytes + number * shape_.page_bytes;
}
std::byte* PlainServer::slot(uint32_t number) { return block(shape_.blocks + number); }

void PlainServer::copy(bool is_put) {
  const Head& head = memory_.as<Head>();
  for (uint32_t i = 0; i < head.count; ++i) {
    std::byte* const in_block = block(head.copies[i].block);
    std::byte* const in_slot = slot(head.copies[i].slot);
    std::memcpy(is_put ? in_slot : in_block, is_put ? in_block : in_slot, shape_.page_bytes);
  }
}

void PlainServer::serve() {
  // Shared memory is mapped anew in a child: its first touches are no part of the floor.
  constexpr uint64_t kMemoryPageBytes = 4096;
  for (uint64_t at = 0; at < memory_.size(); at += kMemoryPageBytes) {
    volatile std::byte* const touched = memory_.data() + at + kMemoryPageBytes - 1;
    *touched = *touched;
  }
  Table table;
  for (uint32_t i = 0; i < shape_.keys.size() / kKeyBytes; ++i)
    table.emplace(key_at(shape_.keys.data(), i), i);
  Head& head = memory_.as<Head>();
  for (uint32_t turn = 0; head.end.load() == 0;) {
    if (!await_change(head.asked, turn, kPatienceNs)) continue;
    if (head.end.load() != 0) return;
    if (head.what == kFind)
      head.found = find_all(table, head);
    else
      copy(head.what == kPut);
    head.done.store(++turn, std::memory_order_release);
    futex_wake(head.done);
  }
}

Result<std::unique_ptr<PlainServer>> PlainServer::start(const PlainShape& shape) {
  const uint64_t pages = uint64_t{shape.blocks} + shape.slots;
  auto memory = SharedMemory::make(kHeadBytes + pages * shape.page_bytes);
  if (!memory) return memory.status();
  std::unique_ptr<PlainServer> server(new PlainServer(memory.take(), shape));
  std::memset(server->memory_.data() + kHeadBytes, 0x5a, pages * shape.page_bytes);
  PlainServer* const served = server.get();
  auto child = Child::run([served] { return served->serve(), 0; });
  if (!child) return child.status();
  server->child_ = std::make_unique<Child>(child.take());
  return server;
}

PlainServer::~PlainServer() {
  Head& head = memory_.as<Head>();
  head.end.store(1);
  head.asked.fetch_add(1);
  futex_wake(head.asked);
}

Result<double> PlainServer::ask(uint32_t what, std::span<const Copy> copies) {
  Head& head = memory_.as<Head>();
  const uint64_t begin = monotonic_ns();
  head.what = what;
  if (what != kFind) {
    head.count = static_cast<uint32_t>(std::min<size_t>(copies.size(), kPagesMax));
    std::copy_n(copies.begin(), head.count, head.copies);
  }
  head.asked.store(turn_ + 1, std::memory_order_release);
  futex_wake(head.asked);
  while (head.done.load(std::memory_order_acquire) == turn_ &&
         monotonic_ns() - begin < kBriefSpinNs)
    relax_cpu();
  if (!await_change(head.done, turn_, kPatienceNs))
    return Status(Code::kTimeout, "the plain server doesn't answer");
  ++turn_;
  return static_cast<double>(monotonic_ns() - begin);
}

Result<double> PlainServer::put_ns(std::span<const Copy> copies) { return ask(kPut, copies); }
Result<double> PlainServer::get_ns(std::span<const Copy> copies) { return ask(kGet, copies); }

Result<double> PlainServer::find_ns(std::span<const std::byte> keys, uint32_t& found) {
  Head& head = memory_.as<Head>();
  const uint64_t begin = monotonic_ns();
  const size_t bytes = std::min(keys.size(), sizeof head.keys);
  std::memcpy(head.keys, keys.data(), bytes);
  head.count = static_cast<uint32_t>(bytes / kKeyBytes);
  if (auto asked = ask(kFind, {}); !asked) return asked.status();
  found += head.found;
  return static_cast<double>(monotonic_ns() - begin);
}

}  // namespace kvsidecar
