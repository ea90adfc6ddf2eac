// SPDX-License-Identifier: Apache-2.0
#include <list>
#include <unordered_map>

#include "tests/bench/hit_rate/policies.h"

namespace kvsidecar {
namespace {

class Lru : public Cache {
 public:
  explicit Lru(size_t capacity) : capacity_(capacity) {}

  bool resident(uint64_t page) const override { return where_.count(page) != 0; }

  void request(const std::vector<uint64_t>& pages) override {
    for (const uint64_t page : pages) use(page);
  }

 private:
  void use(uint64_t page) {
    const auto it = where_.find(page);
    if (it != where_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second);
      return;
    }
    if (where_.size() == capacity_) {
      where_.erase(recent_.back());
      recent_.pop_back();
    }
    recent_.push_front(page);
    where_[page] = recent_.begin();
  }

  size_t capacity_;
  std::list<uint64_t> recent_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> where_;
};

}  // namespace

std::unique_ptr<Cache> make_lru(size_t capacity) { return std::make_unique<Lru>(capacity); }

}  // namespace kvsidecar
