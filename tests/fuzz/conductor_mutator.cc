// SPDX-License-Identifier: Apache-2.0
// Inputs of conductor_fuzz changed move by move, so that most of them get past the first checks:
// whole moves are added, taken away, repeated and exchanged, requests are mostly right, and answers
// are mostly awaited. Now and then the bytes change as they like.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ipc/layout.h"
#include "tests/fuzz/conductor_input.h"
#include "tests/support/fakes.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t bytes, size_t max_bytes);

namespace kvsidecar::fuzz {

size_t move_bytes(const uint8_t* data, size_t left) {
  const auto byte = [&](size_t at) { return at < left ? size_t{data[at]} : size_t{0}; };
  size_t bytes = 1;
  switch (static_cast<Move>(byte(0) % static_cast<uint8_t>(Move::kMoves))) {
    case Move::kRawRecord:
      bytes += 1 + sizeof(RecordHead) + byte(1);
      break;
    case Move::kRecord:
      bytes += 3 + (byte(2) | byte(3) << 8);
      break;
    case Move::kRequest:
      bytes += 5 + 3 * byte(5);
      break;
    case Move::kPublish:
      bytes += byte(1) == 255 ? 9 : 1;
      break;
    case Move::kConsume:
      bytes += byte(1) != 0 ? 9 : 1;
      break;
    case Move::kClaim:
      bytes += 10;
      break;
    case Move::kFence:
      bytes += 9;
      break;
    case Move::kTime:
      bytes += 4;
      break;
    case Move::kMemory:
      bytes += 3;
      break;
    case Move::kFd:
      bytes += 2;
      break;
    case Move::kSteps:
    case Move::kNeighbour:
      bytes += 1;
      break;
    default:
      break;
  }
  return std::min(bytes, left);
}

namespace {

using Random = testing::SeededRandom;
using Moves = std::vector<std::string>;

constexpr size_t kHeadBytes = 2;  // options and the plan's seed

// The head first, then a string for each move.
Moves split(const uint8_t* data, size_t bytes) {
  Moves moves{std::string(reinterpret_cast<const char*>(data), std::min(bytes, kHeadBytes))};
  moves[0].resize(kHeadBytes);
  for (size_t at = kHeadBytes; at < bytes;) {
    const size_t taken = move_bytes(data + at, bytes - at);
    moves.emplace_back(reinterpret_cast<const char*>(data + at), taken);
    at += taken;
  }
  return moves;
}

size_t join(const Moves& moves, uint8_t* data, size_t max_bytes) {
  size_t at = 0;
  for (const std::string& move : moves) {
    if (at + move.size() > max_bytes) break;
    std::memcpy(data + at, move.data(), move.size());
    at += move.size();
  }
  return at;
}

template <typename... Values>
std::string bytes_of(Move move, Values... values) {
  std::string out(1, static_cast<char>(move));
  const auto add = [&out](const auto& value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  (add(values), ...);
  return out;
}

uint8_t small(Random& random, uint64_t n) { return static_cast<uint8_t>(random.below(n)); }

std::string request(Random& random) {
  constexpr RecordType kOften[] = {RecordType::kPut, RecordType::kGet, RecordType::kLookup};
  const auto type =
      random.one_in(3) ? static_cast<RecordType>(1 + random.below(14)) : kOften[random.below(3)];
  // No flag half of the time; each of them alone and several together.
  const auto flags = static_cast<uint8_t>(random.one_in(2) ? 0 : random.next() & random.next());
  std::string out = bytes_of(Move::kRequest, static_cast<uint8_t>(type),
                             small(random, random.one_in(2) ? 12 : 60), small(random, 9), flags);
  const uint8_t edits = random.one_in(6) ? small(random, 4) : uint8_t{0};
  out.push_back(static_cast<char>(edits));
  for (uint8_t i = 0; i < edits; ++i)
    for (int byte = 0; byte < 3; ++byte) out.push_back(static_cast<char>(random.next()));
  return out;
}

std::string other_move(Random& random) {
  switch (random.below(8)) {
    case 0:
      return bytes_of(Move::kTime, static_cast<uint32_t>(1u << random.below(27)));
    case 1:
      return bytes_of(Move::kNeighbour, small(random, 40));
    case 2:
      return bytes_of(Move::kReopen);
    case 3:
      return bytes_of(Move::kFence, small(random, 12), random.below(3));
    case 4:
      return bytes_of(Move::kClaim, static_cast<uint16_t>(random.below(16)),
                      (100 + random.below(40)) << 24 | random.below(9));
    case 5:
      return bytes_of(Move::kFd, small(random, 8), small(random, 4));
    case 6:
      return bytes_of(Move::kMemory, static_cast<uint16_t>(random.next()), small(random, 256));
    default:
      return bytes_of(Move::kSteps, small(random, 16));
  }
}

void insert(Moves& moves, Random& random) {
  const size_t at = 1 + random.below(moves.size());
  Moves fresh;
  for (uint64_t requests = random.below(4); requests > 0; --requests)
    fresh.push_back(request(random));
  if (fresh.empty()) fresh.push_back(other_move(random));
  if (!random.one_in(5)) {
    fresh.push_back(bytes_of(Move::kPublish, uint8_t{0}));
    fresh.push_back(bytes_of(Move::kSteps, small(random, 16)));
    if (!random.one_in(3)) fresh.push_back(bytes_of(Move::kConsume, uint8_t{0}));
  }
  moves.insert(moves.begin() + static_cast<ptrdiff_t>(at), fresh.begin(), fresh.end());
}

void change(Moves& moves, Random& random) {
  if (moves.size() == 1) return insert(moves, random);
  const size_t at = 1 + random.below(moves.size() - 1);
  const auto place = moves.begin() + static_cast<ptrdiff_t>(at);
  switch (random.below(5)) {
    case 0:
      moves.erase(place);
      return;
    case 1: {
      const std::string again = *place;
      moves.insert(moves.begin() + static_cast<ptrdiff_t>(1 + random.below(moves.size())), again);
      return;
    }
    case 2:
      std::swap(*place, moves[1 + random.below(moves.size() - 1)]);
      return;
    case 3:  // one field; the number of a request's edits stays, so that what follows does too
      if (place->size() > 1) {
        const size_t field = 1 + random.below(std::min<size_t>(place->size() - 1, 4));
        (*place)[field] = static_cast<char>(random.one_in(3) ? random.next() : random.below(12));
      }
      return;
    default: {
      place->resize(place->size() + 16);
      auto* bytes = reinterpret_cast<uint8_t*>(place->data());
      place->resize(LLVMFuzzerMutate(bytes, place->size() - 16, place->size()));
      return;
    }
  }
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t bytes, size_t max_bytes,
                                          unsigned int seed) {
  using namespace kvsidecar::fuzz;
  Random random(seed);
  if (random.one_in(16)) return LLVMFuzzerMutate(data, bytes, max_bytes);
  Moves moves = split(data, bytes);
  if (random.one_in(8)) moves[0][0] = static_cast<char>(random.below(32));
  if (random.one_in(8)) moves[0][1] = static_cast<char>(random.next());
  for (uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
    if (random.one_in(2))
      insert(moves, random);
    else
      change(moves, random);
  }
  return join(moves, data, max_bytes);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_bytes,
                                            const uint8_t* second, size_t second_bytes,
                                            uint8_t* out, size_t max_bytes, unsigned int seed) {
  using namespace kvsidecar::fuzz;
  Random random(seed);
  Moves moves = split(first, first_bytes);
  const Moves others = split(second, second_bytes);
  moves.resize(1 + random.below(moves.size()));
  const auto from = static_cast<ptrdiff_t>(1 + random.below(others.size()));
  moves.insert(moves.end(), others.begin() + from, others.end());
  return join(moves, out, max_bytes);
}
