// SPDX-License-Identifier: Apache-2.0
// The floor: reads by the C API of libhf3fs_api_shared.so, as its manual shows them: memory and a
// ring of the library's own, prepare, submit, wait. Made, used and ended by one thread.
#pragma once
#include <memory>
#include <string>

#include "tests/bench/store/usrbio_bench_pages.h"

namespace kvsidecar {

// `library`: its path. A file of `pages` pages is written on the mount. The reads don't outlive
// the mount.
Result<std::unique_ptr<PageReads>> open_bare_reads(const std::string& library,
                                                   const std::string& mount, size_t pages);

}  // namespace kvsidecar
