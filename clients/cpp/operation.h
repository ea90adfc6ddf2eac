// SPDX-License-Identifier: Apache-2.0
// One operation of a client: what was asked (copied from the caller), how much of it was sent, and
// what has been answered. Under the client's mutex; its results are read by the caller without it
// once the operation has finished, and don't change any more.
#pragma once
#include <boost/container/small_vector.hpp>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "clients/cpp/kvsidecar.h"
#include "clients/cpp/split.h"
#include "clients/cpp/staging.h"
#include "ipc/codec.h"

namespace kvsidecar::clientlib {

struct Link;

inline constexpr uint8_t kUnanswered = 0xff;

struct Operation {
  uint64_t id = 0;
  RecordType type = RecordType::kNoop;
  bool internal = false;  // a registration of the library's own: never reported by poll
  std::shared_ptr<Link> link;
  uint64_t deadline_ns = 0, submitted_ns = 0;
  uint64_t look_at_ns = 0;  // when to look whether it is late

  // What was asked. Handles are the daemon's, of `link`; claims are filled in when a record is
  // made.
  Handle namespace_handle = 0;
  uint64_t namespace_id = 0;  // the client's own
  std::vector<std::byte> keys;
  uint32_t key_bytes = 0, count = 0;
  std::vector<Block> blocks;
  std::vector<RunItem> run_items;
  std::vector<Run> runs;
  bool has_coordinate = false;
  Coordinate coordinate;
  Fence fence;
  bool durable = false, layered = false, prefetch = false;
  uint32_t position = 0, prompt_pages = 0, lease_ms = 0;
  std::vector<std::byte> descriptions;
  std::vector<uint32_t> description_ends;
  Handle lease_to_use = 0;
  std::vector<PoolPolicy> pools;
  uint64_t ticket = 0;
  StatWhat what = StatWhat::kStatus;
  std::vector<std::byte> target_id;  // clear, why: 16 bytes or none
  Encoded ready;                     // release, clear and the library's own: encoded by the call

  // Items of memory that can't be shared: pieces of item i end at piece_ends[i].
  bool staged = false;
  std::vector<MemoryPiece> pieces;
  std::vector<uint32_t> piece_ends;
  std::vector<uint64_t> staged_regions;  // the client's ids

  // How far it is.
  uint32_t next = 0;               // first item (or byte of text) not asked for yet
  bool queued = false;             // in the link's queue
  bool in_half = false;            // a lookup whose first records were sent and last weren't
  uint64_t lookup_request = 0;     // the number that a lookup's records share
  // Its records in flight: seldom more than one.
  boost::container::small_vector<uint64_t, 2> requests;
  uint32_t unanswered = 0;         // items (lookup: records) without an answer
  bool freed = false;              // by the caller, while in_half
  bool cancelled = false, overdue_said = false, finished = false;
  std::list<kvs_event>::iterator event{};
  bool has_event = false;

  // The answer.
  Code status = Code::kOk;
  std::string text;
  std::vector<uint8_t> items;       // statuses; lookup: places
  std::vector<uint8_t> restorable;  // bitmap
  uint64_t longest = 0, handle = 0, value = 0, finished_ns = 0, served_ns = 0;
  uint32_t flags = 0;

  bool has_claims() const { return type == RecordType::kPut || type == RecordType::kGet; }
  bool has_items() const { return has_claims() || type == RecordType::kDelete; }
  std::span<const MemoryPiece> pieces_of(uint32_t item) const {
    const uint32_t begin = item == 0 ? 0 : piece_ends[item - 1];
    return std::span(pieces).subspan(begin, piece_ends[item] - begin);
  }
  uint64_t staged_bytes(uint32_t item) const {
    uint64_t bytes = 0;
    for (const MemoryPiece& piece : pieces_of(item)) bytes += piece.bytes;
    return bytes;
  }
  Keys keys_of(uint32_t first, uint32_t items_count) const {
    return {Bytes(keys).subspan(size_t{first} * key_bytes, size_t{items_count} * key_bytes),
            key_bytes};
  }
};

}  // namespace kvsidecar::clientlib
