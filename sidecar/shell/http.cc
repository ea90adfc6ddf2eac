// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <thread>
#include <vector>

#include "ipc/os.h"
#include "sidecar/shell/http_request.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// "host:port" or "[host]:port", numbers only.
bool parse_address(const std::string& listen, SocketAddress& address, socklen_t& length) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon + 1 == listen.size()) return false;
  if (listen.find('\0') != std::string::npos) return false;  // inet_pton() would end there
  const std::string digits = listen.substr(colon + 1);
  if (digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos)
    return false;
  const unsigned long port = std::stoul(digits);
  if (port > 65535) return false;
  std::string host = listen.substr(0, colon);
  address = {};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(static_cast<uint16_t>(port));
    length = sizeof address.v6;
    return ::inet_pton(AF_INET6, host.c_str(), &address.v6.sin6_addr) == 1;
  }
  address.v4.sin_family = AF_INET;
  address.v4.sin_port = htons(static_cast<uint16_t>(port));
  length = sizeof address.v4;
  return ::inet_pton(AF_INET, host.c_str(), &address.v4.sin_addr) == 1;
}

std::string render(const HttpResponse& response) {
  const char* reason = response.status == 200   ? "OK"
                       : response.status == 400 ? "Bad Request"
                       : response.status == 404 ? "Not Found"
                       : response.status == 405 ? "Method Not Allowed"
                                                : "Service Unavailable";
  return "HTTP/1.0 " + std::to_string(response.status) + " " + reason +
         "\r\nContent-Type: " + response.content_type +
         "\r\nContent-Length: " + std::to_string(response.body.size()) +
         "\r\nConnection: close\r\n\r\n" + response.body;
}

struct HttpConnection {
  UniqueFd socket;
  uint64_t deadline_ns = 0;
  std::string request, response;
  size_t sent = 0;
  bool answering = false;
};

}  // namespace

struct HttpServer::State {
  UniqueFd listening, stop_event;
  std::map<std::string, Handler> handlers;
  uint64_t timeout_ns = 0;
  uint16_t port = 0;
  std::list<HttpConnection> connections;  // the thread's
  std::thread thread;

  HttpResponse answer(const HttpRequest& request) const {
    if (request.status == 405) return {405, "text/plain", "GET only\n"};
    if (request.status != 200) return {400, "text/plain", "not a request, or too long\n"};
    const auto found = handlers.find(std::string(request.path));
    if (found != handlers.end()) return found->second();
    std::string known = "not here; there are:\n";
    for (const auto& [path, handler] : handlers) known += path + "\n";
    return {404, "text/plain", known};
  }

  // False when the connection is to be closed.
  bool advance(HttpConnection& c) const {
    char buffer[2048];
    while (!c.answering) {
      const ssize_t got = ::recv(c.socket.get(), buffer, sizeof buffer, 0);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) return false;
      c.request.append(buffer, static_cast<size_t>(got));
      const std::optional<HttpRequest> request = parse_http_request(c.request);
      if (!request) continue;
      c.response = render(answer(*request));
      c.answering = true;
    }
    while (c.sent < c.response.size()) {
      const ssize_t put = ::send(c.socket.get(), c.response.data() + c.sent,
                                 c.response.size() - c.sent, MSG_NOSIGNAL);
      if (put < 0) return errno == EAGAIN || errno == EINTR;
      c.sent += static_cast<size_t>(put);
    }
    ::shutdown(c.socket.get(), SHUT_WR);
    return false;
  }

  void accept_one() {
    UniqueFd fd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    if (connections.size() >= kHttpConnectionsMax) connections.pop_front();  // the oldest
    HttpConnection& added = connections.emplace_back();
    added.socket = std::move(fd);
    added.deadline_ns = monotonic_ns() + timeout_ns;
  }

  void serve() {
    for (;;) {
      std::vector<pollfd> waited{{stop_event.get(), POLLIN, 0}, {listening.get(), POLLIN, 0}};
      uint64_t next_ns = ~0ull;
      for (const HttpConnection& c : connections) {
        waited.push_back({c.socket.get(), static_cast<short>(c.answering ? POLLOUT : POLLIN), 0});
        next_ns = std::min(next_ns, c.deadline_ns);
      }
      const uint64_t now_ns = monotonic_ns();
      const int timeout_ms = connections.empty() ? -1
                             : next_ns <= now_ns
                                 ? 0
                                 : static_cast<int>((next_ns - now_ns) / kMillisecondNs + 1);
      if (::poll(waited.data(), waited.size(), timeout_ms) < 0 && errno != EINTR) return;
      if ((waited[0].revents & POLLIN) != 0) return;
      size_t i = 2;
      for (auto it = connections.begin(); it != connections.end(); ++i) {
        const bool keep = waited[i].revents == 0 || advance(*it);
        const bool overdue = it->deadline_ns <= monotonic_ns();
        it = keep && !overdue ? std::next(it) : connections.erase(it);
      }
      if ((waited[1].revents & POLLIN) != 0) accept_one();
    }
  }
};

Status check_listen(const std::string& listen) {
  SocketAddress address{};
  socklen_t length = 0;
  if (parse_address(listen, address, length)) return {};
  return invalid("metrics.listen = \"" + listen +
                 "\" must be an address and a port, such as \"127.0.0.1:9418\" or "
                 "\"[::1]:9418\"; \"\" for none");
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& listen,
                                                      std::map<std::string, Handler> handlers,
                                                      uint64_t connection_timeout_ns) {
  SocketAddress address{};
  socklen_t length = 0;
  if (!parse_address(listen, address, length)) return check_listen(listen);
  auto state = std::make_unique<State>();
  state->handlers = std::move(handlers);
  state->timeout_ns = connection_timeout_ns;
  state->listening =
      UniqueFd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!state->listening ||
      ::setsockopt(state->listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(state->listening.get(), &address.any, length) != 0 ||
      ::listen(state->listening.get(), kHttpConnectionsMax) != 0)
    return os_error("metrics.listen = \"" + listen +
                        "\" can't be listened on (choose another port; 0 picks one)",
                    errno, Code::kInvalid);
  if (::getsockname(state->listening.get(), &address.any, &length) == 0)
    state->port =
        ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
  Result<UniqueFd> stop = make_eventfd();
  if (!stop) return stop.status();
  state->stop_event = stop.take();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  state->thread = std::thread([s = state.get()] { s->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(state->thread.native_handle(), "kvs-http");
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  eventfd_signal(state_->stop_event.get());
  state_->thread.join();
}

uint16_t HttpServer::port() const { return state_->port; }

}  // namespace kvsidecar
