// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/mount_door.h"

#include <cerrno>

namespace kvsidecar {
namespace {

int errno_of(Code code) {
  return code == Code::kUnavailable ? ENOTCONN : code == Code::kDenied ? EACCES : EIO;
}

}  // namespace

void MountDoor::opened(int fd, std::function<void(int error)> ready) {
  KV_CHECK(!handed_over_);
  struct Registered {
    std::unique_ptr<usrbio::File> file;
    int error = 0;
  };
  auto registered = std::make_shared<Registered>();
  thread_.post(
      [this, fd, registered] {
        auto file = client_.register_file(fd);
        if (file)
          registered->file = file.take();
        else
          registered->error = errno_of(file.status().code());
      },
      [this, registered, ready = std::move(ready)] {
        if (registered->file != nullptr) transfers_.add_file(std::move(registered->file));
        ready(registered->error);
      });
}

void MountDoor::close(UniqueFd fd) {
  std::shared_ptr<usrbio::File> file = transfers_.remove_file(fd.get());
  auto held = std::make_shared<UniqueFd>(std::move(fd));
  auto end = [file = std::move(file), held]() mutable {
    file.reset();
    held->reset();
  };
  if (handed_over_) return end();
  thread_.post(std::move(end), nullptr);
}

void MountDoor::run(std::function<void()> run, std::function<void()> finish) {
  KV_CHECK(!handed_over_);
  thread_.post(std::move(run), std::move(finish));
}

}  // namespace kvsidecar
