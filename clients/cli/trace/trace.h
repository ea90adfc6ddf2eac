// SPDX-License-Identifier: Apache-2.0
// A request trace: who asked for which prompt pages, when. Read from Mooncake's public format: one
// JSON object a line with `timestamp` (ms), `input_length` and `output_length` (tokens) and
// `hash_ids` (one number per prompt page of 512 tokens; equal numbers = equal prefix up to and
// including that page). Pure but for read_trace; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar {

inline constexpr uint32_t kTraceTokensPerPage = 512;
inline constexpr size_t kTracePagesMax = 65536;  // of one request; a longer prompt is refused

struct TraceRequest {
  uint64_t timestamp_ms = 0;
  uint32_t input_tokens = 0;
  uint32_t output_tokens = 0;
  std::vector<uint64_t> pages;  // in prompt order; never empty
};

struct Trace {
  std::string name;  // the file's path, or what generated it
  std::vector<TraceRequest> requests;
};

// kInvalid: "line 3: 'hash_ids' is missing; …" names line, field and remedy.
Result<TraceRequest> parse_trace_line(std::string_view line, size_t line_number);
// The first `requests_max` requests of the file (0 = all); empty lines are skipped. kInvalid when
// the file can't be read, a line is bad or no request is in it.
Result<Trace> read_trace(const std::string& path, size_t requests_max);

// The page numbers of all requests, in order.
std::vector<std::vector<uint64_t>> pages_of(const Trace& trace);

}  // namespace kvsidecar
