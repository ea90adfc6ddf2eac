// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/trace/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

Status bad_line(size_t line_number, const std::string& text) {
  return invalid("line " + std::to_string(line_number) + ": " + text);
}

// A value for a message: short enough for one line of a terminal.
std::string shown(const Json& value) {
  std::string text = value.dump();
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

Result<uint64_t> number(const Json& object, const char* field, uint64_t max, size_t line_number) {
  const auto found = object.find(field);
  if (found == object.end()) {
    return bad_line(line_number, std::string("'") + field +
                                     "' is missing; each line needs timestamp, input_length, "
                                     "output_length and hash_ids");
  }
  if (!found->is_number_unsigned() || found->get<uint64_t>() > max) {
    return bad_line(line_number, std::string("'") + field + "' is " + shown(*found) +
                                     "; it must be a whole number from 0 to " +
                                     std::to_string(max));
  }
  return found->get<uint64_t>();
}

Status read_pages(const Json& object, size_t line_number, std::vector<uint64_t>& pages) {
  const auto found = object.find("hash_ids");
  if (found == object.end()) {
    return bad_line(line_number, "'hash_ids' is missing; it must be a list of numbers");
  }
  if (!found->is_array() || found->empty() || found->size() > kTracePagesMax) {
    return bad_line(line_number, "'hash_ids' is " + shown(*found) + "; it must be a list of 1 to " +
                                     std::to_string(kTracePagesMax) + " numbers");
  }
  pages.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_unsigned()) {
      return bad_line(line_number,
                      "'hash_ids' holds " + shown(id) + "; it may only hold whole numbers from 0");
    }
    pages.push_back(id.get<uint64_t>());
  }
  return {};
}

}  // namespace

Result<TraceRequest> parse_trace_line(std::string_view line, size_t line_number) {
  const Json object = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!object.is_object()) {
    return bad_line(line_number, "this is not a JSON object; a trace has one object a line");
  }
  constexpr uint64_t kTokensMax = std::numeric_limits<uint32_t>::max();
  TraceRequest request;
  const auto timestamp =
      number(object, "timestamp", std::numeric_limits<uint64_t>::max(), line_number);
  if (!timestamp) return timestamp.status();
  const auto input = number(object, "input_length", kTokensMax, line_number);
  if (!input) return input.status();
  const auto output = number(object, "output_length", kTokensMax, line_number);
  if (!output) return output.status();
  request.timestamp_ms = *timestamp;
  request.input_tokens = static_cast<uint32_t>(*input);
  request.output_tokens = static_cast<uint32_t>(*output);
  Status status = read_pages(object, line_number, request.pages);
  if (!status.ok()) return status;
  return request;
}

Result<Trace> read_trace(const std::string& path, size_t requests_max) {
  std::ifstream file(path);
  if (!file) {
    return invalid("trace '" + path + "' can't be read: " + std::strerror(errno) +
                   "; name a file in Mooncake's JSON lines format");
  }
  Trace trace;
  trace.name = path;
  std::string line;
  for (size_t line_number = 1; std::getline(file, line); ++line_number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = parse_trace_line(line, line_number);
    if (!request) return invalid("trace '" + path + "', " + request.status().text());
    trace.requests.push_back(request.take());
    if (requests_max != 0 && trace.requests.size() == requests_max) break;
  }
  if (file.bad()) return invalid("trace '" + path + "' can't be read: " + std::strerror(errno));
  if (trace.requests.empty()) return invalid("trace '" + path + "' holds no request");
  return trace;
}

std::vector<std::vector<uint64_t>> pages_of(const Trace& trace) {
  std::vector<std::vector<uint64_t>> all;
  all.reserve(trace.requests.size());
  for (const TraceRequest& request : trace.requests) all.push_back(request.pages);
  return all;
}

}  // namespace kvsidecar
