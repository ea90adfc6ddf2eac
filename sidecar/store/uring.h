// SPDX-License-Identifier: Apache-2.0
// A thin owner of liburing's ring. The ring's eventfd is signalled at each completion, so that a
// thread that sleeps on it needs no polling. One owner; register_memory may be called while I/O is
// in flight.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ipc/result.h"

struct io_uring;
struct io_uring_sqe;

namespace kvsidecar {

class Uring {
 public:
  // event_fd: signalled when a completion arrives; -1 = none. kUnavailable with a sentence when
  // this kernel or container forbids io_uring.
  static Result<std::unique_ptr<Uring>> create(uint32_t entries, int event_fd);
  ~Uring();

  io_uring_sqe* next_submission();  // null = full: submit() first
  int submit();                     // submitted, or -errno
  struct Completion {
    uint64_t user = 0;
    int32_t result = 0;
  };
  bool next_completion(Completion& completion);
  bool has_completion() const;

  // Pins the memory for read_fixed and write_fixed. It must stay mapped as long as the ring lives.
  Status register_memory(std::span<std::byte> memory);
  // Number of the registered buffer that holds the range whole; -1 = none.
  int buffer_number(const std::byte* data, uint64_t bytes) const;

 private:
  Uring();
  std::unique_ptr<io_uring> ring_;
  bool table_ = false;
  std::vector<std::span<std::byte>> registered_;
};

}  // namespace kvsidecar
