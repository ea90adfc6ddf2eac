// SPDX-License-Identifier: Apache-2.0
//
// S3-FIFO as its paper describes it: a small queue of a tenth, a main queue that gives used pages
// another round, a ghost queue of as many pages as the main one. A page leaves the small queue for
// the main one when it was used again in it.
#include <algorithm>
#include <deque>
#include <list>
#include <unordered_map>

#include "tests/bench/hit_rate/policies.h"

namespace kvsidecar {
namespace {

constexpr int kUsesMax = 3;

class S3Fifo : public Cache {
 public:
  explicit S3Fifo(size_t capacity)
      : capacity_(capacity), small_pages_(std::max<size_t>(1, capacity / 10)) {}

  bool resident(uint64_t page) const override { return uses_.count(page) != 0; }

  void request(const std::vector<uint64_t>& pages) override {
    for (const uint64_t page : pages) use(page);
  }

 private:
  void use(uint64_t page) {
    const auto it = uses_.find(page);
    if (it != uses_.end()) {
      it->second = std::min(kUsesMax, it->second + 1);
      return;
    }
    while (uses_.size() >= capacity_) small_.size() >= small_pages_ ? leave_small() : leave_main();
    const auto ghost = ghosts_.find(page);
    if (ghost != ghosts_.end()) {
      ghost_order_.erase(ghost->second);
      ghosts_.erase(ghost);
      main_.push_back(page);
    } else {
      small_.push_back(page);
    }
    uses_[page] = 0;
  }

  void leave_small() {
    while (!small_.empty()) {
      const uint64_t page = small_.front();
      small_.pop_front();
      if (uses_[page] == 0) {
        uses_.erase(page);
        remember(page);
        return;
      }
      uses_[page] = 0;
      main_.push_back(page);
      if (main_.size() > capacity_ - small_pages_) return leave_main();
    }
    leave_main();
  }

  void leave_main() {
    while (!main_.empty()) {
      const uint64_t page = main_.front();
      main_.pop_front();
      if (uses_[page] == 0) {
        uses_.erase(page);
        return;
      }
      --uses_[page];
      main_.push_back(page);
    }
  }

  void remember(uint64_t page) {
    ghosts_[page] = ghost_order_.insert(ghost_order_.end(), page);
    if (ghosts_.size() <= capacity_ - small_pages_) return;
    ghosts_.erase(ghost_order_.front());
    ghost_order_.pop_front();
  }

  size_t capacity_;
  size_t small_pages_;
  std::deque<uint64_t> small_;
  std::deque<uint64_t> main_;
  std::unordered_map<uint64_t, int> uses_;  // of resident pages
  std::list<uint64_t> ghost_order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> ghosts_;
};

}  // namespace

std::unique_ptr<Cache> make_s3_fifo(size_t capacity) { return std::make_unique<S3Fifo>(capacity); }

}  // namespace kvsidecar
