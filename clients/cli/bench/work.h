// SPDX-License-Identifier: Apache-2.0
// The work by which clients of such daemons are compared: batches of 64 pages of 256 KiB in
// shuffled blocks under keys that are new in each round, single pages, lookups of 512 keys. Done
// through the C++ client in this process, or through the Python client in one of its own. One
// thread.
#pragma once
#include <memory>
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

namespace work {
inline constexpr uint64_t kPageBytes = 256 << 10, kSmallPageBytes = 4096;
inline constexpr uint32_t kBatch = 64, kBatches = 8, kBlocks = kBatch * kBatches;
inline constexpr uint32_t kKeys = 512, kPrompts = 64;
inline constexpr uint32_t kSingles = 200, kLookups = 200;
}  // namespace work

class Work {
 public:
  virtual ~Work() = default;
  // One round of a task, as the median in nanoseconds: put, get (of what the latest put put),
  // put_page, get_page, lookup; only Python's: own, its time beside the library's in a batch of
  // 512.
  virtual Result<double> run(const std::string& task) = 0;
};

Result<std::unique_ptr<Work>> start_cpp_work(const std::string& socket);
// `interpreter` runs the package's module kvsidecar.bench, with this process's client library.
Result<std::unique_ptr<Work>> start_python_work(const std::string& interpreter,
                                                const std::string& socket);

}  // namespace kvsidecar
