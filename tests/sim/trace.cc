// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/trace.h"

#include <cstdio>
#include <cstdlib>

namespace kvsidecar::sim {

Trace::Trace(uint64_t seed)
    : hash_(seed ^ 0xcbf29ce484222325ull), print_(std::getenv("KVSIDECAR_SIM_TRACE") != nullptr) {}

void Trace::event(const std::string& text) {
  ++events_;
  for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  if (print_)
    std::fprintf(stderr, "%llu %s\n", static_cast<unsigned long long>(events_), text.c_str());
  last_.push_back(std::to_string(events_) + " " + text);
  if (last_.size() > kLinesKept) last_.pop_front();
}

void Trace::violation(const std::string& text) {
  event("VIOLATION " + text);
  if (violation_.empty()) violation_ = text;
}

std::string Trace::story() const {
  std::string text;
  for (const std::string& line : last_) text += line + "\n";
  return text;
}

}  // namespace kvsidecar::sim
