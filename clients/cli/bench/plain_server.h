// SPDX-License-Identifier: Apache-2.0
// The floor of a daemon: a process that does what it is asked at a futex wake-up, over shared
// memory, and nothing else. It proves no byte, evicts nothing, knows one client. One thread a side.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "clients/cli/bench/child.h"

namespace kvsidecar {

struct PlainShape {
  uint64_t page_bytes = 0;
  uint32_t blocks = 1, slots = 1;  // the engine's and the server's, in one mapping
  std::vector<std::byte> keys;     // 16 bytes each, that it finds
};

class PlainServer {
 public:
  static constexpr uint32_t kPagesMax = 64, kKeysMax = 512;
  struct Copy {
    uint32_t block, slot;
  };

  static Result<std::unique_ptr<PlainServer>> start(const PlainShape& shape);
  ~PlainServer();

  // Nanoseconds from the call to its end; the caller spins briefly, then sleeps.
  Result<double> put_ns(std::span<const Copy> copies);  // blocks into slots; kPagesMax at most
  Result<double> get_ns(std::span<const Copy> copies);
  // Looks each key up in a std::unordered_map; `found` counts. kKeysMax at most.
  Result<double> find_ns(std::span<const std::byte> keys, uint32_t& found);

  std::byte* block(uint32_t number);
  std::byte* slot(uint32_t number);

 private:
  PlainServer(SharedMemory memory, const PlainShape& shape)
      : memory_(std::move(memory)), shape_(shape) {}
  void serve();
  void copy(bool is_put);
  Result<double> ask(uint32_t what, std::span<const Copy> copies);

  SharedMemory memory_;
  const PlainShape shape_;
  std::unique_ptr<Child> child_;
  uint32_t turn_ = 0;
};

}  // namespace kvsidecar
