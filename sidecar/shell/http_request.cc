// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/http_request.h"

namespace kvsidecar {

std::optional<HttpRequest> parse_http_request(std::string_view received) {
  const bool whole = received.find("\r\n\r\n") != std::string_view::npos ||
                     received.find("\n\n") != std::string_view::npos;
  if (!whole) {
    if (received.size() <= kHttpRequestBytesMax) return std::nullopt;
    return HttpRequest{400, {}};
  }
  const std::string_view line = received.substr(0, received.find_first_of("\r\n"));
  const size_t method_end = line.find(' ');
  if (method_end == std::string_view::npos) return HttpRequest{400, {}};
  if (line.substr(0, method_end) != "GET") return HttpRequest{405, {}};
  const std::string_view target = line.substr(method_end + 1);
  return HttpRequest{200, target.substr(0, target.find_first_of(" ?"))};
}

}  // namespace kvsidecar
