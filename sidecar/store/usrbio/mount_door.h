// SPDX-License-Identifier: Apache-2.0
// The store's file descriptors on a 3FS mount: registered when they are opened, deregistered before
// they are closed (closing one that is registered poisons its number), both on the mount thread.
// One owner (the store worker), until hand_over().
#pragma once
#include "sidecar/store/file_door.h"
#include "sidecar/store/usrbio/mount_thread.h"
#include "sidecar/store/usrbio/transfers.h"

namespace kvsidecar {

class MountDoor final : public FileDoor {
 public:
  // All outlive it.
  MountDoor(usrbio::Client& client, UsrbioTransfers& transfers, MountThread& thread)
      : client_(client), transfers_(transfers), thread_(thread) {}
  void opened(int fd, std::function<void(int error)> ready) override;
  void close(UniqueFd fd) override;
  void run(std::function<void()> run, std::function<void()> finish) override;
  // From here on it is used on the mount thread, and what it does it does at once.
  void hand_over() { handed_over_ = true; }

 private:
  usrbio::Client& client_;
  UsrbioTransfers& transfers_;
  MountThread& thread_;
  bool handed_over_ = false;
};

}  // namespace kvsidecar
