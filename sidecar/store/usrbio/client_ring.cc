// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/client_ring.h"

#include <atomic>
#include <cerrno>
#include <cstring>

namespace kvsidecar::usrbio {
namespace {

int32_t load(int32_t& index) { return std::atomic_ref<int32_t>(index).load(); }

void store(int32_t& index, uint32_t value) {
  std::atomic_ref<int32_t>(index).store(static_cast<int32_t>(value));
}

}  // namespace

ClientRing::ClientRing(std::byte* memory, uint32_t entries)
    : memory_(memory), layout_(entries), slots_(entries) {
  KV_CHECK(entries >= 1 && entries <= kRingEntriesMax);
}

uint32_t ClientRing::distance(uint32_t from, uint32_t to) const {
  return to >= from ? to - from : to + layout_.places - from;
}

void ClientRing::end_with(std::string what) {
  fault_ = {Code::kIoError, "3FS's fuse daemon wrote " + what +
                                " into a ring: the ring is given up; restart the fuse daemon"};
}

bool ClientRing::room_for_submission() {
  const int32_t said = load(indices().submission_tail);
  const auto tail = static_cast<uint32_t>(said);
  // It only moves forward, and never past what was submitted.
  if (said < 0 || tail >= layout_.places ||
      distance(tail, submission_head_) > distance(submission_tail_, submission_head_)) {
    end_with("submission tail " + std::to_string(said));
    return false;
  }
  submission_tail_ = tail;
  return distance(tail, submission_head_) + 1 < layout_.places;
}

int ClientRing::prepare(const Io& io, uint64_t user) {
  if (!fault_.ok()) return -EPROTO;
  if (!room_for_submission()) return fault_.ok() ? -EAGAIN : -EPROTO;
  const auto taken = slots_.take(user, io.bytes);
  if (!taken) return -EAGAIN;
  const IoArguments arguments{io.memory,      io.memory_offset, io.inode,
                              io.file_offset, io.bytes,         taken->token};
  std::memcpy(memory_ + layout_.arguments() + taken->slot * sizeof arguments, &arguments,
              sizeof arguments);
  const IoSubmission submission{static_cast<int32_t>(taken->slot), 0, taken->token};
  std::memcpy(memory_ + layout_.submissions() + submission_head_ * sizeof submission, &submission,
              sizeof submission);
  submission_head_ = submission_head_ + 1 == layout_.places ? 0 : submission_head_ + 1;
  store(indices().submission_head, submission_head_);  // published last
  return static_cast<int>(taken->slot);
}

bool ClientRing::has_completion() const {
  return fault_.ok() && load(indices().completion_head) != static_cast<int32_t>(completion_tail_);
}

bool ClientRing::take_completion(Ended& ended) {
  IoCompletion copy;
  std::memcpy(&copy, memory_ + layout_.completions() + completion_tail_ * sizeof copy, sizeof copy);
  if (copy.index < 0 || static_cast<uint32_t>(copy.index) != Slots::slot_of(copy.user)) {
    end_with("a completion of slot " + std::to_string(copy.index) + " with another I/O's token");
    return false;
  }
  const auto io = slots_.finish(copy.user);
  if (!io) {
    end_with("a completion of slot " + std::to_string(copy.index) + ", where no such I/O is");
    return false;
  }
  ended = {static_cast<uint32_t>(copy.index), io->user, io->bytes, copy.result};
  completion_tail_ = completion_tail_ + 1 == layout_.places ? 0 : completion_tail_ + 1;
  return true;
}

size_t ClientRing::poll(std::span<Ended> into) {
  if (!has_completion()) return 0;
  const int32_t said = load(indices().completion_head);
  const auto head = static_cast<uint32_t>(said);
  if (said < 0 || head >= layout_.places || distance(completion_tail_, head) > slots_.taken()) {
    end_with("completion head " + std::to_string(said));
    return 0;
  }
  size_t count = 0;
  while (count < into.size() && completion_tail_ != head && take_completion(into[count])) ++count;
  if (count > 0) store(indices().completion_tail, completion_tail_);
  return count;
}

void ClientRing::discard_posts(size_t most) {
  while (most-- > 0 && ::sem_trywait(done()) == 0) {
  }
}

}  // namespace kvsidecar::usrbio
