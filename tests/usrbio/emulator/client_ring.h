// SPDX-License-Identifier: Apache-2.0
// The library's side of a ring: who may use which slot, and the two queues in shared memory, as the
// real library drives them. The other side is the daemon's (tests/usrbio/core).
#pragma once
#include <semaphore.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>

#include "tests/usrbio/abi/hf3fs_abi.h"

namespace kvsidecar::emulator {

struct Request {
  uint8_t buffer_id[16];
  uint64_t buffer_offset = 0;
  uint64_t inode = 0;
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
  const void* userdata = nullptr;
};
static_assert(sizeof(Request) == 56);

class ClientRing {
 public:
  // What a ring of so many entries occupies.
  static size_t bytes(int entries);

  // memory: bytes(entries) long, zeroed, mapped for as long as this lives; entries: 1 or more.
  ClientRing(std::byte* memory, int entries);

  // The slot, or -EAGAIN: none is free, or the oldest unfinished request is `entries` ago. Live at
  // once: the daemon may take it before any submit.
  int prepare(const Request& request);
  // As hf3fs_wait_for_ios. drained: called after completions were taken.
  int wait(hf3fs_cqe* into, int into_count, int min_results, const timespec* until,
           const std::function<void()>& drained);

 private:
  struct Submission {
    int32_t slot;
    int32_t unused;
    const void* userdata;
  };
  static_assert(sizeof(Submission) == 16);

  bool take(hf3fs_cqe& into);
  bool ready() const;
  void sleep_a_slice(const timespec* until);

  const int32_t places_;  // entries + 1: a full queue isn't an empty one
  std::atomic<int32_t>*const submit_head_, *const submit_tail_, *const done_head_,
                                                                    *const done_tail_;
  Request* const requests_;
  hf3fs_cqe* const done_;
  Submission* const submitted_;
  sem_t* const posted_;
  std::mutex lock_;  // free_
  std::set<int32_t> free_;
};

}  // namespace kvsidecar::emulator
