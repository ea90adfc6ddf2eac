// SPDX-License-Identifier: Apache-2.0
// A forked process that a measurement needs beside its own, and memory shared with it. The child
// ends when its job returns, and with the object (SIGKILL). One thread.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>

#include "ipc/os.h"
#include "ipc/result.h"

namespace kvsidecar {

class Child {
 public:
  // job's return value is the exit code. Called from a process with one thread, or from one whose
  // other threads are the client library's keepers (their clients are dead in the child).
  static Result<Child> run(const std::function<int()>& job);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();
  int wait();  // blocks for the exit code; -1 when it was killed

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

// Zeroed memory that children made later share.
class SharedMemory {
 public:
  static Result<SharedMemory> make(uint64_t bytes);
  std::byte* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }
  template <typename T>
  T& as() const {
    return *reinterpret_cast<T*>(memory_.data());
  }

 private:
  explicit SharedMemory(MappedMemory memory) : memory_(std::move(memory)) {}
  MappedMemory memory_;
};

// Waits until word isn't `expected` any more (false: not within timeout_ns): sleeps on it.
bool await_change(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns);

}  // namespace kvsidecar
