// SPDX-License-Identifier: Apache-2.0
// Goal: metrics and health answer over HTTP, and a slow, silent or wrong peer holds nothing.
// Method: plain sockets against a server on a port that it picks.
#include "sidecar/shell/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "ipc/os.h"
#include "sidecar/shell/metrics.h"
#include "sidecar/store/store_parts.h"

namespace kvsidecar {
namespace {

std::unique_ptr<HttpServer> start(uint64_t timeout_ns = 5'000'000'000) {
  std::map<std::string, HttpServer::Handler> handlers;
  handlers["/healthz"] = [] { return HttpResponse{200, "text/plain", "ok\n"}; };
  handlers["/readyz"] = [] { return HttpResponse{503, "text/plain", "not yet\n"}; };
  auto started = HttpServer::start("127.0.0.1:0", std::move(handlers), timeout_ns);
  EXPECT_TRUE(started.ok()) << started.status().text();
  return started.take();
}

UniqueFd connect(const HttpServer& server) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

std::string read_all(const UniqueFd& fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  return text;
}

std::string ask(const HttpServer& server, const std::string& request) {
  const UniqueFd fd = connect(server);
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  return read_all(fd);
}

TEST(Http, APathAnswersWithItsStatusAndBody) {
  const auto server = start();
  const std::string ok = ask(*server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(ok.find("HTTP/1.0 200 OK\r\n"), 0u) << ok;
  EXPECT_NE(ok.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_EQ(ok.substr(ok.size() - 3), "ok\n");
  EXPECT_EQ(ask(*server, "GET /readyz?verbose HTTP/1.0\r\n\r\n").find("HTTP/1.0 503"), 0u);
}

TEST(Http, AnUnknownPathNamesTheKnownOnes) {
  const auto server = start();
  const std::string answer = ask(*server, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.find("HTTP/1.0 404"), 0u);
  EXPECT_NE(answer.find("/healthz"), std::string::npos);
}

TEST(Http, OtherMethodsAndNonsenseAreRefused) {
  const auto server = start();
  EXPECT_EQ(ask(*server, "POST /healthz HTTP/1.0\r\n\r\n").find("HTTP/1.0 405"), 0u);
  EXPECT_EQ(ask(*server, "\r\n\r\n").find("HTTP/1.0 400"), 0u);
  EXPECT_EQ(ask(*server, std::string(20'000, 'x')).find("HTTP/1.0 400"), 0u);
}

TEST(Http, ARequestInPiecesIsPutTogether) {
  const auto server = start();
  const UniqueFd fd = connect(*server);
  for (const std::string piece : {"GET /hea", "lthz HTTP/1.0\r", "\n\r\n"})
    ASSERT_GT(::send(fd.get(), piece.data(), piece.size(), MSG_NOSIGNAL), 0);
  EXPECT_EQ(read_all(fd).find("HTTP/1.0 200"), 0u);
}

TEST(Http, ASilentPeerIsHungUpAtItsDeadline) {
  const auto server = start(20'000'000);
  const UniqueFd fd = connect(*server);
  pollfd state{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 10'000), 1);
  EXPECT_EQ(read_all(fd), "");
}

TEST(Http, ManySilentPeersDoNotKeepOthersOut) {
  const auto server = start(60'000'000'000);
  std::vector<UniqueFd> silent;
  for (size_t i = 0; i < 2 * kHttpConnectionsMax; ++i) silent.push_back(connect(*server));
  EXPECT_EQ(ask(*server, "GET /healthz HTTP/1.0\r\n\r\n").find("HTTP/1.0 200"), 0u);
}

TEST(Http, AWrongAddressIsRefusedByName) {
  for (const char* listen :
       {"localhost:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", ":1", ""}) {
    const auto started = HttpServer::start(listen, {});
    ASSERT_FALSE(started.ok()) << listen;
    EXPECT_NE(started.status().text().find("metrics.listen"), std::string::npos);
  }
}

// O6-06
TEST(Http, APortInUseIsRefusedByName) {
  const auto server = start();
  const auto second = HttpServer::start("127.0.0.1:" + std::to_string(server->port()), {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find("metrics.listen"), std::string::npos);
}

TEST(MetricsText, EveryCounterAndTheGaugesAreInIt) {
  Counters counters;
  counters.pages_put.add(3);
  Metrics metrics;
  const StoreCounters store;
  metrics.set_counters(&counters, &store);
  MetricsSnapshot snapshot;
  snapshot.gauges.sessions = 8;
  snapshot.epoch = 5;
  metrics.leave_snapshot(snapshot);
  const std::string text = metrics.text();
#define X(name, help)                                                               \
  EXPECT_NE(text.find("\nkvsidecar_" #name "_total "), std::string::npos) << #name; \
  EXPECT_NE(text.find("# HELP kvsidecar_" #name "_total "), std::string::npos) << #name;
  KV_COUNTERS(X)
#undef X
  EXPECT_NE(text.find("\nkvsidecar_pages_put_total 3\n"), std::string::npos);
  EXPECT_NE(text.find("\nkvsidecar_sessions 8\n"), std::string::npos);
  EXPECT_NE(text.find("\nkvsidecar_epoch 5\n"), std::string::npos);
  EXPECT_NE(text.find("\nkvsidecar_store_breaker_open 0\n"), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar
