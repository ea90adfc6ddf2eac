// SPDX-License-Identifier: Apache-2.0
// A thread that has rings scanned every millisecond though nobody submitted, where a fault asks for
// it. It sleeps where none does.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/usrbio/core/server.h"

namespace kvsidecar::emulator {

class IdleScans {
 public:
  explicit IdleScans(fake3fs::Server& server);
  ~IdleScans();
  IdleScans(const IdleScans&) = delete;
  IdleScans& operator=(const IdleScans&) = delete;
  void set_wanted(bool wanted);

 private:
  void scan();

  fake3fs::Server& server_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool wanted_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace kvsidecar::emulator
