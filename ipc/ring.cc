// SPDX-License-Identifier: Apache-2.0
#include "ipc/ring.h"

#include <algorithm>
#include <cstring>

namespace kvsidecar {
namespace {

constexpr uint32_t kSubmissionPayloadMax = kSubmissionCellBytes - sizeof(RecordHead);
constexpr uint32_t kCompletionPayloadMax = kCompletionCellBytes - sizeof(CompletionHead);

std::byte* submission_cell(const SessionMemory& memory, uint64_t position) {
  const uint64_t index = position & (memory.geometry.submission_cells - 1);
  return memory.submission + sizeof(SubmissionHead) + index * kSubmissionCellBytes;
}

std::byte* completion_cell(const SessionMemory& memory, uint64_t position) {
  const uint64_t index = position & (memory.geometry.completion_cells - 1);
  return memory.completion + sizeof(InfoPage) + index * kCompletionCellBytes;
}

std::atomic<uint64_t>* word_at(const SessionMemory& memory, size_t index) {
  return reinterpret_cast<std::atomic<uint64_t>*>(memory.cells + sizeof(CellPage)) + index;
}

// Copies what a peer may be changing right now. The barrier keeps the compiler from reading the
// shared bytes once more where the copy is meant.
void copy_out(void* copy, const std::byte* shared, size_t bytes) {
  std::memcpy(copy, shared, bytes);
  asm volatile("" : : : "memory");
}

Status bad_record(const char* field, uint64_t value, const char* remedy) {
  return invalid(std::string("record head: ") + field + " is " + std::to_string(value) + "; " +
                 remedy);
}

Status check_head(const RecordHead& head, uint64_t arena_bytes) {
  if (head.flags != 0) return bad_record("flags", head.flags, "it must be 0");
  for (const uint32_t word : head.reserved) {
    if (word != 0) return bad_record("reserved", word, "it must be 0");
  }
  if (head.arena_length == 0) {
    if (head.arena_offset != 0) {
      return bad_record("arena_offset", head.arena_offset, "it must be 0 without arena_length");
    }
    if (head.length > kSubmissionPayloadMax) {
      return bad_record("length", head.length, "a cell holds 1984 bytes; use the arena");
    }
    return {};
  }
  if (head.length != 0) {
    return bad_record("length", head.length, "it must be 0 beside arena_length");
  }
  if (head.arena_length > kRequestBytesMax) {
    return bad_record("arena_length", head.arena_length, "split the request at 65536 bytes");
  }
  if (head.arena_offset % 64 != 0) {
    return bad_record("arena_offset", head.arena_offset, "it must be a multiple of 64");
  }
  if (uint64_t{head.arena_offset} + head.arena_length > arena_bytes) {
    return bad_record("arena_offset", head.arena_offset, "offset + length must lie in the arena");
  }
  return {};
}

}  // namespace

std::atomic<uint64_t>* SessionMemory::fence(uint32_t index) const {
  return index < geometry.fences ? word_at(*this, index) : nullptr;
}

std::atomic<uint64_t>* SessionMemory::claim(uint32_t index) const {
  return index < geometry.claims ? word_at(*this, size_t{geometry.fences} + index) : nullptr;
}

SubmissionProducer::SubmissionProducer(const SessionMemory& memory) : memory_(memory) {}

bool SubmissionProducer::has_room() {
  return free_block() < memory_.geometry.arena_blocks &&
         position_.has_room(consumed_, memory_.geometry.submission_cells);
}

uint32_t SubmissionProducer::free_block() {
  consumed_ = position_.freed(memory_.info().consumed);
  uint32_t block = 0;
  while (block < memory_.geometry.arena_blocks && arena_used_[block] > consumed_) ++block;
  return block;
}

bool SubmissionProducer::push(RecordHead head, Bytes payload) {
  KV_CHECK(payload.size() <= kRequestBytesMax);
  if (!position_.has_room(consumed_, memory_.geometry.submission_cells / 2)) {
    consumed_ = position_.freed(memory_.info().consumed);
    if (!position_.has_room(consumed_, memory_.geometry.submission_cells)) return false;
  }
  std::byte* cell = submission_cell(memory_, position_.next());
  head.length = head.arena_offset = head.arena_length = 0;
  head.flags = 0;
  std::memset(head.reserved, 0, sizeof head.reserved);
  std::byte* target = cell + sizeof(RecordHead);
  if (payload.size() <= kSubmissionPayloadMax) {
    head.length = static_cast<uint32_t>(payload.size());
  } else {
    const uint32_t block = free_block();
    if (block == memory_.geometry.arena_blocks) return false;
    arena_used_[block] = position_.next() + 1;
    head.arena_offset = block * kArenaBlockBytes;
    head.arena_length = static_cast<uint32_t>(payload.size());
    target = memory_.submission + arena_start(memory_.geometry) + head.arena_offset;
  }
  if (!payload.empty()) std::memcpy(target, payload.data(), payload.size());
  std::memcpy(cell, &head, sizeof head);
  position_.filled();
  return true;
}

bool SubmissionProducer::publish() {
  return publish_and_look(position_, memory_.submission_head().published,
                          memory_.info().daemon_sleeps) != 0;
}

SubmissionConsumer::SubmissionConsumer(const SessionMemory& memory) : memory_(memory) {}

Result<int> SubmissionConsumer::pop(RecordHead& head, std::byte* payload, uint32_t& length) {
  const uint64_t published = position_.look(memory_.submission_head().published);
  if (published == position_.next()) return 0;
  if (!position_.possible(published, memory_.geometry.submission_cells)) {
    return invalid("submission ring: published is " + std::to_string(published) +
                   " where the daemon has consumed " + std::to_string(position_.next()) +
                   " of a ring of " + std::to_string(memory_.geometry.submission_cells) +
                   " cells; publish only records that lie in the ring");
  }
  const std::byte* cell = submission_cell(memory_, position_.next());
  copy_out(&head, cell, sizeof head);
  const size_t arena_bytes = size_t{memory_.geometry.arena_blocks} * kArenaBlockBytes;
  if (Status checked = check_head(head, arena_bytes); !checked.ok()) return checked;
  const std::byte* source = cell + sizeof(RecordHead);
  length = head.length;
  if (head.arena_length > 0) {
    source = memory_.submission + arena_start(memory_.geometry) + head.arena_offset;
    length = head.arena_length;
  }
  copy_out(payload, source, length);
  position_.taken();
  return 1;
}

bool SubmissionConsumer::has_records() const {
  if (position_.look_again(memory_.submission_head().published) == position_.next()) return false;
  // The lines that taking it will need come from the client's core while the turn begins.
  const std::byte* cell = submission_cell(memory_, position_.next());
  __builtin_prefetch(cell);
  __builtin_prefetch(cell + sizeof(RecordHead));
  __builtin_prefetch(&memory_.cell_page().client_sleeps);
  return true;
}

void SubmissionConsumer::publish_consumed() { position_.free_taken(memory_.info().consumed); }

CompletionProducer::CompletionProducer(const SessionMemory& memory) : memory_(memory) {}

Result<bool> CompletionProducer::reserve(uint32_t cells) {
  const uint32_t all = memory_.geometry.completion_cells;
  if (position_.in_use(consumed_) + reserved_ + cells > all / 2) {
    const uint64_t consumed = position_.freed(memory_.cell_page().consumed);
    if (!position_.possible(consumed, all)) {
      return invalid("completion ring: consumed is " + std::to_string(consumed) + " where " +
                     std::to_string(position_.published()) + " cells were published in a ring of " +
                     std::to_string(all) + "; count only cells that were read");
    }
    consumed_ = consumed;
    if (position_.in_use(consumed_) + reserved_ + cells > all) return false;
  }
  reserved_ += cells;
  return true;
}

void CompletionProducer::push(const CompletionHead& head, Bytes payload) {
  KV_CHECK(reserved_ > 0);
  KV_CHECK(payload.size() <= kCompletionPayloadMax);
  std::byte* cell = completion_cell(memory_, position_.next());
  CompletionHead out = head;
  out.length = static_cast<uint32_t>(payload.size());
  std::memcpy(cell, &out, sizeof out);
  if (!payload.empty()) std::memcpy(cell + sizeof out, payload.data(), payload.size());
  --reserved_;
  position_.filled();
}

void CompletionProducer::unreserve(uint32_t cells) {
  KV_CHECK(cells <= reserved_);
  reserved_ -= cells;
}

uint32_t CompletionProducer::publish() {
  InfoPage& info = memory_.info();
  return publish_ring_and_look(position_, info.published, info.doorbell,
                               memory_.cell_page().client_sleeps) &
         3;
}

CompletionConsumer::CompletionConsumer(const SessionMemory& memory) : memory_(memory) {}

const CompletionHead* CompletionConsumer::peek(Bytes& payload) {
  const uint64_t published = position_.look_again(memory_.info().published);
  if (published == position_.next()) return nullptr;
  if (!position_.possible(published, memory_.geometry.completion_cells)) return nullptr;
  const std::byte* cell = completion_cell(memory_, position_.next());
  copy_out(&head_, cell, sizeof head_);
  payload = Bytes(cell + sizeof(CompletionHead), std::min(head_.length, kCompletionPayloadMax));
  return &head_;
}

void CompletionConsumer::consume() {
  position_.taken();
  position_.free_taken(memory_.cell_page().consumed);
}

}  // namespace kvsidecar
