// SPDX-License-Identifier: Apache-2.0
// What HttpServer understands of a request: its first line, once the blank line has come. Pure; any
// thread.
#pragma once
#include <optional>
#include <string_view>

namespace kvsidecar {

inline constexpr size_t kHttpRequestBytesMax = 8192;

struct HttpRequest {
  int status = 200;       // or why it can't be served
  std::string_view path;  // of a 200: without its query; points into what was received
};
// Of all bytes received so far; nullopt: more have to come.
std::optional<HttpRequest> parse_http_request(std::string_view received);

}  // namespace kvsidecar
