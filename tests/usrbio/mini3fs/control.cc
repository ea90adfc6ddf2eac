// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

namespace kvsidecar::fake3fs {
namespace {

constexpr int64_t kWaitMs = 20'000;

std::string ended(const Status& status) {
  return status.ok() ? "ok\n" : "error: " + status.text() + "\n";
}

template <typename Map>
std::string listed(const Map& values) {
  std::ostringstream text;
  for (const auto& [name, value] : values) text << name << " " << value << "\n";
  text << "ok\n";
  return text.str();
}

}  // namespace

Result<std::unique_ptr<Control>> Control::listen(const std::string& path, FileSystem& fs) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(address.sun_path))
    return invalid("the control socket's path '" + path + "' is too long; use a shorter folder");
  std::memcpy(address.sun_path, path.data(), path.size());
  ::unlink(path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), 16) != 0)
    return os_error("listen on " + path, errno);
  std::unique_ptr<Control> control(new Control(std::move(socket), fs));
  control->acceptor_ = std::thread([&control = *control] { control.accept_all(); });
  return control;
}

Control::~Control() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  fs_.counts->end_waits();
  acceptor_.join();
  for (const UniqueFd& connection : connections_) ::shutdown(connection.get(), SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
}

void Control::accept_all() {
  while (true) {
    UniqueFd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    const int fd = connection.get();
    connections_.push_back(std::move(connection));
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void Control::serve(int connection) {
  std::string text;
  char part[1024];
  for (ssize_t got; (got = ::recv(connection, part, sizeof(part), 0)) > 0;) {
    text.append(part, static_cast<size_t>(got));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const std::string reply = answer_to(text.substr(0, end));
      if (::send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return;
    }
  }
}

std::string Control::answer_to(const std::string& line) {
  std::istringstream words(line);
  std::string command, name, value;
  words >> command >> name >> value;
  if (command == "set") return ended(fs_.faults->set(name, value));
  if (command == "release" || command == "clear") {
    if (command == "clear") fs_.faults->clear();
    fs_.server->release_stalled();
    return "ok\n";
  }
  if (command == "gc" || command == "sync") {
    command == "gc" ? fs_.nodes->collect_unlinked() : fs_.nodes->settle_all();
    return "ok\n";
  }
  if (command == "faults") return listed(fs_.faults->current());
  if (command == "counts") return listed(fs_.counts->all());
  if (command == "wait") {
    int64_t ms = kWaitMs;
    words >> ms;
    const int64_t at_least = std::atoll(value.c_str());
    if (fs_.counts->wait_for(name, at_least, std::chrono::milliseconds(words ? ms : kWaitMs)))
      return "ok\n";
    return "error: " + name + " is " + std::to_string(fs_.counts->get(name)) + "\n";
  }
  return "error: there is no command '" + command + "'\n";
}

}  // namespace kvsidecar::fake3fs
