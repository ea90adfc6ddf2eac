// SPDX-License-Identifier: Apache-2.0
// Gets of 1 MiB pages through a real daemon on the usrbio store and a client. The pages are asked
// for in turns and the host pool holds an eighth of them: each comes from the store, into a slot
// that was used before, as in a daemon that has run for a while. One thread.
#pragma once
#include <memory>
#include <string>

#include "clients/cli/bench/rig.h"
#include "tests/bench/store/usrbio_bench_pages.h"

namespace kvsidecar {

class DaemonReads {
 public:
  // Puts the pages and waits until they are stored. `program`: of the daemon.
  static Result<std::unique_ptr<DaemonReads>> start(const std::string& program,
                                                    const std::string& mount, size_t pages);
  Result<double> get_one();  // nanoseconds
  // So many pages, kBenchDepth in a request; the CPU time is the daemon's.
  Result<Stretch> get_many(size_t count);
  // Of all pages that were asked for.
  double share_from_store();
  // Bytes of shared memory that it has beside the host pool.
  uint64_t shared_bytes() const;

 private:
  Status attach();
  Status put(size_t pages);
  Status await_written(size_t pages);
  Result<double> get(uint32_t count);
  double cpu_seconds();

  size_t pages_ = 0, next_page_ = 0;
  uint64_t asked_ = 0;
  std::unique_ptr<BenchDaemon> daemon_;
  std::unique_ptr<BenchEngine> engine_;
};

}  // namespace kvsidecar
