// SPDX-License-Identifier: Apache-2.0
// A 3FS mount in a test's hand: a USRBIO client without threads, over plain files. The test decides
// when and how each I/O ends: in which order, short, with an errno, never; when the mount dies, and
// what can't be registered.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sidecar/store/usrbio/client.h"

namespace kvsidecar::testing {

struct FakeIo {
  const void* ring = nullptr;
  uint64_t user = 0;
  bool read = true;
  std::byte* address = nullptr;
  uint64_t bytes = 0, offset = 0;
  int fd = -1;
};

class FakeMount {
 public:
  enum class Mode : uint8_t {
    kAtPoll,     // an I/O is done when its ring is polled
    kAtPrepare,  // as soon as it is prepared
    kByHand      // by finish()
  };
  Mode mode = Mode::kAtPoll;
  bool alive = true;
  bool mounted = true;                          // what new clients find
  std::string mount_point = "/";                // must share the root's device
  std::set<std::string> refused_memory;         // paths that can't be registered
  std::set<std::string> useless_memory;         // register, but every I/O there ends -EACCES
  std::function<int()> prepare_error;           // asked at each prepare: 0, or what it ends with
  std::function<bool(const char* call)> fails;  // asked at each call of the mount thread

  std::deque<FakeIo> pending;
  size_t prepared = 0, submits = 0;
  int clients = 0, rings = 0, memories = 0, files = 0;  // that exist
  std::set<int> registered_fds;

  // Ends pending[number]: moves all its bytes, or with the result that is given.
  void finish(size_t number);
  void finish_with(size_t number, int64_t result);
  void finish_all();
  // A completion that comes once more.
  void repeat(const void* ring, uint64_t user, int64_t result);

  Result<std::unique_ptr<usrbio::Client>> open();

 private:
  friend class FakeRing;
  friend class FakeClient;
  bool fail(const char* call) { return fails && fails(call); }
  static int64_t move(const FakeIo& io);
  bool is_useless(const FakeIo& io) const;
  void complete(const FakeIo& io, int64_t result);
  struct Done {
    const void* ring;
    usrbio::Completion completion;
  };
  std::deque<Done> done_;
  std::vector<std::pair<std::string, std::span<std::byte>>> useless_;
};

}  // namespace kvsidecar::testing
