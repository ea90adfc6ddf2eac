// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/moves.h"

#include <charconv>
#include <numeric>

namespace kvsidecar::sim {
namespace {

constexpr uint32_t kMovesMax = 1'000'000;

std::optional<uint32_t> parse_number(const char*& at, const char* end) {
  uint32_t number = 0;
  const auto parsed = std::from_chars(at, end, number);
  if (parsed.ec != std::errc{} || number >= kMovesMax) return std::nullopt;
  at = parsed.ptr;
  return number;
}

}  // namespace

Moves first_moves(uint32_t count) {
  Moves moves(count);
  std::iota(moves.begin(), moves.end(), 0u);
  return moves;
}

std::string text_of(const Moves& moves) {
  std::string text;
  for (size_t i = 0; i < moves.size();) {
    size_t last = i;
    while (last + 1 < moves.size() && moves[last + 1] == moves[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(moves[i]);
    if (last > i) text += "-" + std::to_string(moves[last]);
    i = last + 1;
  }
  return text;
}

std::optional<Moves> parse_moves(const std::string& text) {
  Moves moves;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const auto first = parse_number(at, end);
    auto last = first;
    if (first && at != end && *at == '-') last = parse_number(++at, end);
    if (!first || !last || *last < *first || (!moves.empty() && *first <= moves.back()))
      return std::nullopt;
    for (uint32_t move = *first; move <= *last; ++move) moves.push_back(move);
    if (at != end && (*at++ != ',' || at == end)) return std::nullopt;
  }
  return moves;
}

testing::SeededRandom chances_of(uint64_t seed, uint32_t move) {
  return testing::SeededRandom(testing::SeededRandom(seed).next() + move * 0x2545f4914f6cdd1dull);
}

}  // namespace kvsidecar::sim
