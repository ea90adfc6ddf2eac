// SPDX-License-Identifier: Apache-2.0
//
// Caches of pages under different eviction policies, fed with whole requests: the host pool's own
// policy and the two references that it is set against. One thread; a Cache owns its state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kvsidecar {

using Requests = std::vector<std::vector<uint64_t>>;  // page numbers, in prompt order

class Cache {
 public:
  virtual ~Cache() = default;
  virtual bool resident(uint64_t page) const = 0;
  // What an engine does: its prompt's resident pages are used, the missing ones computed and put.
  virtual void request(const std::vector<uint64_t>& pages) = 0;
};

// capacity: pages, at least 1.
std::unique_ptr<Cache> make_lru(size_t capacity);
std::unique_ptr<Cache> make_s3_fifo(size_t capacity);
std::unique_ptr<Cache> make_host_pool(size_t capacity);  // sidecar/index/eviction.h

// Pages that lie in the run of resident pages at the start of their request, over all requests.
uint64_t leading_hits(Cache& cache, const Requests& requests);

}  // namespace kvsidecar
