// SPDX-License-Identifier: Apache-2.0
// Reads through a UsrbioStore with its worker thread, into memory like the host pool's; this
// thread is the conductor.
#pragma once
#include <memory>
#include <string>

#include "tests/bench/store/usrbio_bench_pages.h"

namespace kvsidecar {

// `library`: the path of the library that it speaks by; empty: the builtin client. The pages are
// written first. The reads don't outlive the mount.
Result<std::unique_ptr<PageReads>> open_store_reads(const std::string& library,
                                                    const std::string& mount, size_t pages);

}  // namespace kvsidecar
