// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/trace/generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <span>

namespace kvsidecar {
namespace {

// A splitmix64 step: the standard library's distributions differ between
// implementations, so numbers are drawn from this one alone.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

struct Quantile {
  double share, value;
};

// Measured on the reference trace: prompts that open a conversation (pages), what a returning turn
// adds (pages), how long a turn takes to come back (ms), output lengths (tokens). The reference
// ends after an hour, which hides the late turns of its conversations: gaps and chances to go on
// are the measured ones raised by a fifth, so that an hour of this shows what that hour showed.
constexpr std::array<Quantile, 10> kFirstPages = {{{0, 2},
                                                   {0.18, 2},
                                                   {0.25, 3},
                                                   {0.5, 11},
                                                   {0.75, 26},
                                                   {0.9, 50},
                                                   {0.95, 76},
                                                   {0.99, 176},
                                                   {0.999, 240},
                                                   {1, 247}}};
constexpr std::array<Quantile, 9> kTailPages = {{{0, 1},
                                                 {0.22, 1},
                                                 {0.26, 2},
                                                 {0.5, 2.4},
                                                 {0.75, 7.5},
                                                 {0.9, 20},
                                                 {0.95, 29},
                                                 {0.99, 53},
                                                 {1, 120}}};
constexpr std::array<Quantile, 9> kGapMs = {{{0, 6000},
                                             {0.05, 30000},
                                             {0.1, 42000},
                                             {0.25, 80000},
                                             {0.5, 150000},
                                             {0.75, 330000},
                                             {0.9, 600000},
                                             {0.99, 1700000},
                                             {1, 3000000}}};
constexpr std::array<Quantile, 7> kOutputTokens = {
    {{0, 3}, {0.1, 24}, {0.25, 156}, {0.5, 350}, {0.9, 597}, {0.99, 1120}, {1, 2000}}};
// Chance that turn n is followed by another; the last value stands for all later turns.
constexpr std::array<double, 8> kGoesOn = {0.48, 0.52, 0.56, 0.62, 0.66, 0.70, 0.76, 0.80};
constexpr double kGoesOnShortest = 0.30;  // of two pages only: no conversation to speak of
constexpr double kGoesOnLong = 0.75;      // times that, from kLongPages on
constexpr size_t kLongPages = 32;
constexpr double kIsDocument = 0.08;             // asked about again from its first prompt on
constexpr double kMsBetweenConversations = 490;  // 7,373 in 3,537 s, some cut off
constexpr uint64_t kArrivalStepMs = 3000;        // the reference trace's clock
constexpr size_t kPagesMax = 247;

double at_quantile(std::span<const Quantile> table, double share) {
  for (size_t i = 1; i < table.size(); ++i) {
    if (share > table[i].share) continue;
    const Quantile &a = table[i - 1], &b = table[i];
    // Straight in the logarithm: these lengths and gaps spread over orders of magnitude.
    const double part = (share - a.share) / (b.share - a.share);
    return std::exp(std::log(a.value) + part * (std::log(b.value) - std::log(a.value)));
  }
  return table.back().value;
}

size_t pages_at(std::span<const Quantile> table, Random& random) {
  return static_cast<size_t>(std::lround(at_quantile(table, random.unit())));
}

struct Turn {
  double at_ms = 0;
  uint64_t order = 0;  // ties in time keep one order
  size_t number = 0;   // 0 = opens the conversation
  bool document = false;
  std::vector<uint64_t> shared;  // prefix that this turn shares with an earlier one
};
struct Later {
  bool operator()(const Turn& a, const Turn& b) const {
    return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.order > b.order;
  }
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) { open_conversation(0); }

  TraceRequest next() {
    Turn turn = turns_.top();
    turns_.pop();
    if (turn.number == 0) {
      open_conversation(turn.at_ms - kMsBetweenConversations * std::log(1 - random_.unit()));
    }
    TraceRequest request;
    request.timestamp_ms = static_cast<uint64_t>(turn.at_ms) / kArrivalStepMs * kArrivalStepMs;
    request.pages = turn.shared;
    const size_t fresh =
        turn.number == 0 ? pages_at(kFirstPages, random_) - 1 : pages_at(kTailPages, random_);
    for (size_t i = 0; i < fresh && request.pages.size() < kPagesMax; ++i) {
      request.pages.push_back(next_page_++);
    }
    const auto last_page = static_cast<uint32_t>(random_.next() % kTraceTokensPerPage);
    request.input_tokens =
        static_cast<uint32_t>(request.pages.size()) * kTraceTokensPerPage - last_page;
    request.output_tokens = static_cast<uint32_t>(at_quantile(kOutputTokens, random_.unit()));
    come_back(turn, request);
    return request;
  }

 private:
  void open_conversation(double at_ms) {
    turns_.push({at_ms, order_++, 0, random_.chance(kIsDocument), {kSystemPage}});
  }

  void come_back(const Turn& turn, const TraceRequest& request) {
    const bool shortest = turn.number == 0 && request.pages.size() <= 2;
    double goes_on =
        shortest ? kGoesOnShortest : kGoesOn[std::min(turn.number, kGoesOn.size() - 1)];
    if (request.pages.size() >= kLongPages) goes_on *= kGoesOnLong;
    if (!random_.chance(goes_on)) return;
    Turn again;
    again.at_ms = turn.at_ms + at_quantile(kGapMs, random_.unit());
    again.order = order_++;
    again.number = turn.number + 1;
    again.document = turn.document;
    if (turn.document && turn.number > 0) {
      again.shared = turn.shared;
    } else {
      // The last page was not full: the next turn continues it, so it is another page then.
      again.shared.assign(request.pages.begin(), request.pages.end() - 1);
    }
    turns_.push(std::move(again));
  }

  static constexpr uint64_t kSystemPage = 0;
  Random random_;
  uint64_t next_page_ = 1;
  uint64_t order_ = 0;
  std::priority_queue<Turn, std::vector<Turn>, Later> turns_;
};

}  // namespace

Trace generate_trace(uint64_t seed, size_t requests) {
  Trace trace;
  trace.name = "generated, seed " + std::to_string(seed);
  Generator generator(seed);
  trace.requests.reserve(requests);
  while (trace.requests.size() < std::max<size_t>(requests, 1)) {
    trace.requests.push_back(generator.next());
  }
  return trace;
}

}  // namespace kvsidecar
