// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/host_queue.h"

#include <algorithm>
#include <cstring>

#include "sidecar/device/fault_guard.h"
#include "sidecar/device/host_device.h"
#include "sidecar/device/host_region.h"
#include "sidecar/digest.h"
#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {
namespace {

// A batch beyond the caches evicts itself: written past the cache it costs no read of the
// destination (half as fast again, measured). A smaller one is left in the cache for its reader.
constexpr uint64_t kPastCacheBatchBytes = 1 << 20;
constexpr uint64_t kPastCachePieceBytes = 1024;

std::byte* engine_bytes(const Piece& piece) {
  return static_cast<HostRegion*>(piece.region)->data() + piece.offset;
}

bool inside_engine_memory(std::span<const Piece> pieces, const void* address) {
  return std::any_of(pieces.begin(), pieces.end(), [address](const Piece& piece) {
    // By region, not by piece: the kernel reports the page.
    const auto* host = static_cast<const HostRegion*>(piece.region);
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto first = reinterpret_cast<uintptr_t>(host->data()) & ~uintptr_t{4095};
    const auto last = reinterpret_cast<uintptr_t>(host->data()) + host->bytes();
    return at >= first && at < last;
  });
}

// Copies the leaf that begins `into_piece` bytes into pieces[first] and returns its digest.
uint64_t store_leaf(std::span<const Piece> pieces, size_t first, uint64_t into_piece,
                    uint64_t leaf_bytes, std::vector<CopySource>& sources) {
  std::byte* const to = pieces[first].host + into_piece;
  size_t count = 0;
  for (uint64_t done = 0; done < leaf_bytes; into_piece = 0) {
    const Piece& piece = pieces[first + count];
    const uint64_t bytes = std::min(piece.bytes - into_piece, leaf_bytes - done);
    sources[count++] = {engine_bytes(piece) + into_piece, bytes};
    done += bytes;
  }
  return digest_variant_in_use().copy_leaf(to, sources.data(), count, leaf_bytes);
}

}  // namespace

HostQueue::HostQueue(HostDevice& device, uint64_t shuffle_seed)
    : device_(device), random_state_(shuffle_seed) {}

HostQueue::~HostQueue() {
  for (const Batch& batch : waiting_)
    for (const Piece& piece : batch.pieces) HostRegion::open(*piece.region).leave();
}

uint64_t HostQueue::submit(Direction direction, std::span<const Piece> pieces,
                           std::span<uint64_t> leaves) {
  uint64_t total = 0;
  for (const Piece& piece : pieces) {
    HostRegion& region = HostRegion::open(*piece.region);
    KV_CHECK(piece.bytes > 0 && region.holds(piece.offset, piece.bytes));
    if (!leaves.empty()) KV_CHECK(piece.host == pieces.front().host + total);
    total += piece.bytes;
    region.enter();
  }
  if (!leaves.empty())
    KV_CHECK(direction == Direction::kStore && leaves.size() == leaf_count(total));
  waiting_.push_back({next_ticket_, direction, pieces, leaves});
  return next_ticket_++;
}

size_t HostQueue::poll(std::span<Done> out) {
  if (out.empty() || waiting_.empty()) return 0;
  const Batch batch = waiting_.front();
  waiting_.pop_front();
  out[0] = {batch.ticket, run(batch)};
  for (const Piece& piece : batch.pieces) static_cast<HostRegion*>(piece.region)->leave();
  return 1;
}

Code HostQueue::run(const Batch& batch) {
  size_t steps = plan(batch);
  const int error = device_.fault("device.copy");
  if (error != 0) steps = random() % (steps + 1);  // a failed batch has copied anything
  auto body = [&] { copy(batch, steps); };
  const void* const address = guarded(body);
  publish_copies();
  if (address != nullptr)
    return inside_engine_memory(batch.pieces, address) ? Code::kMemoryFault : Code::kInternal;
  return error == 0 ? Code::kOk : Code::kInternal;
}

// Fills order_ (shuffled) and, with leaves, leaf_starts_. Returns the number of steps.
size_t HostQueue::plan(const Batch& batch) {
  const size_t steps = batch.leaves.empty() ? batch.pieces.size() : batch.leaves.size();
  order_.resize(steps);
  for (size_t i = 0; i < steps; ++i) order_[i] = static_cast<uint32_t>(i);
  shuffle();
  sources_.resize(batch.pieces.size());
  leaf_starts_.resize(batch.leaves.size());
  uint64_t start = 0;  // of the piece, from the batch's first byte
  size_t leaf = 0;
  for (size_t i = 0; i < batch.pieces.size() && leaf < leaf_starts_.size(); ++i) {
    const uint64_t end = start + batch.pieces[i].bytes;
    for (; leaf < leaf_starts_.size() && leaf * kLeafBytes < end; ++leaf)
      leaf_starts_[leaf] = {static_cast<uint32_t>(i), leaf * kLeafBytes - start};
    start = end;
  }
  return steps;
}

void HostQueue::copy(const Batch& batch, size_t steps) {
  if (!batch.leaves.empty()) return copy_leaves(batch, steps);
  const auto past_cache = digest_variant_in_use().copy_past_cache;
  uint64_t total = 0;
  for (const Piece& piece : batch.pieces) total += piece.bytes;
  for (size_t i = 0; i < steps; ++i) {
    const Piece& piece = batch.pieces[order_[i]];
    const bool store = batch.direction == Direction::kStore;
    std::byte* const to = store ? piece.host : engine_bytes(piece);
    const std::byte* const from = store ? engine_bytes(piece) : piece.host;
    if (total >= kPastCacheBatchBytes && piece.bytes >= kPastCachePieceBytes)
      past_cache(to, from, piece.bytes);
    else
      std::memcpy(to, from, piece.bytes);
  }
}

void HostQueue::copy_leaves(const Batch& batch, size_t steps) {
  const Piece& back = batch.pieces.back();
  const std::byte* const begin = batch.pieces.front().host;
  const auto total = static_cast<uint64_t>(back.host + back.bytes - begin);
  for (size_t i = 0; i < steps; ++i) {
    const size_t leaf = order_[i];
    const uint64_t count = std::min(kLeafBytes, total - leaf * kLeafBytes);
    const LeafStart& start = leaf_starts_[leaf];
    batch.leaves[leaf] = store_leaf(batch.pieces, start.piece, start.into_piece, count, sources_);
  }
}

void HostQueue::shuffle() {
  for (size_t i = order_.size(); i > 1; --i)
    std::swap(order_[i - 1], order_[static_cast<size_t>(random() % i)]);
}

uint64_t HostQueue::random() {  // splitmix64
  uint64_t z = random_state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace kvsidecar
