// SPDX-License-Identifier: Apache-2.0
// A very small HTTP/1.0 responder for metrics and health: GET of a few fixed paths, one response a
// connection. One thread of its own; at most kHttpConnectionsMax connections, each with a deadline,
// so that a slow or silent peer holds nothing. Not for the open internet: listen on loopback.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};
inline constexpr size_t kHttpConnectionsMax = 16;

// Whether HttpServer::start() understands it: "127.0.0.1:9418" or "[::1]:9418"; port 0 picks one.
Status check_listen(const std::string& listen);

class HttpServer {
 public:
  using Handler = std::function<HttpResponse()>;  // called on the server's thread
  static Result<std::unique_ptr<HttpServer>> start(const std::string& listen,
                                                   std::map<std::string, Handler> handlers,
                                                   uint64_t connection_timeout_ns = 5'000'000'000);
  ~HttpServer();  // stops and joins
  uint16_t port() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
