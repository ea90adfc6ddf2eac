// SPDX-License-Identifier: Apache-2.0
// Requests to the metrics server with arbitrary bytes: nothing outside of them is read, what has
// been decided doesn't change with the bytes that follow, more than the limit is always decided,
// and a path is a piece of a first line that asks for it. Addresses to listen on: a sentence, or
// digits and a colon.
#include <cstdlib>

#include "sidecar/shell/http.h"
#include "sidecar/shell/http_request.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar;
  using namespace kvsidecar::fuzz;
  FuzzInput in(data, bytes);
  const size_t piece_bytes = in.take<uint8_t>() + size_t{1};
  const auto rest = in.rest();
  const std::string whole(reinterpret_cast<const char*>(rest.data()), rest.size());

  std::optional<HttpRequest> decided;
  for (size_t got = 0; got < whole.size() && !decided;) {
    got = std::min(got + piece_bytes, whole.size());
    const ExactCopy copy(rest.first(got));
    const std::string_view received(reinterpret_cast<const char*>(copy.bytes().data()), got);
    decided = parse_http_request(received);
    require(decided.has_value() || got <= kHttpRequestBytesMax, "a long request is decided");
    if (!decided || decided->status != 200) continue;
    require(decided->path.find_first_of(" ?\r\n") == std::string_view::npos, "a path is a word");
    require(received.starts_with("GET " + std::string(decided->path)), "a path is asked for");
    const std::optional<HttpRequest> later = parse_http_request(whole);
    require(later && later->status == 200 && later->path == decided->path,
            "what was decided stays so");
  }

  const std::string address = whole.substr(0, 256);
  const Status listen = check_listen(address);
  if (!listen.ok()) {
    require_sentence(listen);
  } else {
    const size_t colon = address.rfind(':');
    require(colon != std::string::npos &&
                address.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
                std::strtoul(address.c_str() + colon + 1, nullptr, 10) < 65536,
            "an address has a port");
    require(address.find_first_not_of("0123456789abcdefABCDEF.:[]") == std::string::npos,
            "an address is numbers");
  }
  return 0;
}
