// SPDX-License-Identifier: Apache-2.0
// The claim word: who may touch one item's engine memory right now. It lies in client-writable
// shared memory (the cell page) and is moved by compare-and-swap only, by both sides:
//
//   client  : Free    -> Queued      before the request is published
//   daemon  : Queued  -> Copying     after the fence, just before it touches engine memory
//             Queued  -> Skipped     the item is never copied (EXISTS, miss, BUSY, error)
//             Copying -> Done|Failed after the last byte; only Done makes a put's part count
//             Queued  -> Revoked     after the deadline either side may revoke
//   client  : Queued  -> Revoked     deadline, cancel, abort: the blocks are the engine's again at
//   once
//             Copying -> Abandoned   puts only: the blocks are free at once, the part never counts
//
// A word holds the request's sequence and the item's tag beside the state, so a daemon that was
// stopped and goes on can't win a word that a later request uses. A client may use a word again
// only after the completion was read or the daemon is dead. The daemon trusts nothing it reads
// here: a word with an unexpected value only loses the claim.
#pragma once
#include <atomic>
#include <cstdint>

namespace kvsidecar {

enum class ClaimState : uint8_t {
  kFree = 0,
  kQueued = 1,
  kCopying = 2,
  kDone = 3,
  kFailed = 4,
  kRevoked = 5,
  kAbandoned = 6,
  kSkipped = 7,
};

using ClaimWord = std::atomic<uint64_t>;
static_assert(ClaimWord::is_always_lock_free && sizeof(ClaimWord) == 8);

// Bits 63..24 request sequence (40 bits), 23..8 item tag, 7..0 state.
constexpr uint64_t claim_value(uint64_t sequence, uint16_t tag, ClaimState state) {
  return (sequence << 24) | (uint64_t{tag} << 8) | static_cast<uint64_t>(state);
}
constexpr ClaimState claim_state(uint64_t value) { return static_cast<ClaimState>(value & 0xff); }

// One item's claim as the daemon or the client library holds it. Copyable; owns nothing: the word
// must stay mapped as long as a Claim is used. Any thread.
class Claim {
 public:
  Claim() = default;
  Claim(ClaimWord* word, uint64_t sequence, uint16_t tag)
      : word_(word), sequence_(sequence), tag_(tag) {}

  // True when the word was exactly (sequence, tag, from) and now is (sequence, tag, to).
  bool move(ClaimState from, ClaimState to) const {
    uint64_t expected = claim_value(sequence_, tag_, from);
    return word_->compare_exchange_strong(expected, claim_value(sequence_, tag_, to),
                                          std::memory_order_acq_rel);
  }
  // The state if the word still belongs to this request, else kFree.
  ClaimState state() const {
    const uint64_t value = word_->load(std::memory_order_acquire);
    return (value >> 8) == (claim_value(sequence_, tag_, ClaimState::kFree) >> 8)
               ? claim_state(value)
               : ClaimState::kFree;
  }
  explicit operator bool() const { return word_ != nullptr; }

 private:
  ClaimWord* word_ = nullptr;
  uint64_t sequence_ = 0;
  uint16_t tag_ = 0;
};

}  // namespace kvsidecar
