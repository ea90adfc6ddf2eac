// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/hit_rate/policies.h"

#include <unordered_map>

#include "sidecar/index/eviction.h"

namespace kvsidecar {
namespace {

// Drives Eviction as the daemon does: a lookup request touches or misses each key, then a put
// request brings the missing pages.
class HostPoolCache : public Cache {
 public:
  explicit HostPoolCache(size_t capacity)
      : eviction_(static_cast<uint32_t>(capacity)), pages_(capacity) {}

  bool resident(uint64_t page) const override { return slots_.count(page) != 0; }

  void request(const std::vector<uint64_t>& pages) override {
    const uint32_t prompt_pages = static_cast<uint32_t>(pages.size());
    ++request_;
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < prompt_pages; ++i) {
      const PageAccess access{pages[i], i, prompt_pages, request_};
      const auto it = slots_.find(pages[i]);
      if (it != slots_.end()) {
        eviction_.touched(it->second, access);
      } else {
        eviction_.missed(access);
        missing.push_back(i);
      }
    }
    ++request_;
    for (const uint32_t i : missing) {
      const uint32_t slot = take_slot();
      pages_[slot] = pages[i];
      slots_[pages[i]] = slot;
      eviction_.inserted(slot, PageAccess{pages[i], i, prompt_pages, request_});
    }
  }

 private:
  uint32_t take_slot() {
    if (used_ < pages_.size()) return used_++;
    const uint32_t slot = eviction_.victim([](uint32_t) { return true; });
    slots_.erase(pages_[slot]);
    return slot;
  }

  Eviction eviction_;
  std::vector<uint64_t> pages_;  // by slot
  std::unordered_map<uint64_t, uint32_t> slots_;
  uint32_t used_ = 0;
  uint64_t request_ = 0;
};

}  // namespace

std::unique_ptr<Cache> make_host_pool(size_t capacity) {
  return std::make_unique<HostPoolCache>(capacity);
}

uint64_t leading_hits(Cache& cache, const Requests& requests) {
  uint64_t hits = 0;
  for (const std::vector<uint64_t>& pages : requests) {
    for (size_t i = 0; i < pages.size() && cache.resident(pages[i]); ++i) ++hits;
    cache.request(pages);
  }
  return hits;
}

}  // namespace kvsidecar
