// SPDX-License-Identifier: Apache-2.0
//
// Learns how soon pages are used again. Owned by Eviction, same thread.
//
// It follows a sample of all pages, resident or not (so what it learns doesn't depend on what was
// evicted), chosen by their tag. When a followed page is used again, its class and its age since
// the last use count as a hit; when it is replaced in the sample, its age counts as watched in
// vain. fit() turns these into a hazard per class and age (hits per page and request), and that
// into the worth of a page of this class and age: over all ages up to which one may wait, the
// greatest expected hits per expected slot time (an optimal stopping index). Classes with little
// evidence lean on the mean of all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvsidecar {

class ReuseModel {
 public:
  static constexpr uint32_t kClasses = 10;
  static constexpr uint32_t kBuckets = 44;  // of age: two for each doubling

  explicit ReuseModel(uint32_t slots_max);

  void resize(uint32_t slots_max);

  // uses: how often the page was used before; last: it ends its prompt.
  static uint8_t class_of(uint32_t uses, bool last);
  static uint32_t bucket_of(uint32_t age_requests);
  static uint32_t bucket_floor(uint32_t bucket);  // smallest age in it

  enum class Kind : uint8_t { kMissed, kInserted, kTouched };
  // A page was used; page_class is the class it has from now on.
  void used(uint32_t tag, uint8_t page_class, uint32_t request, Kind kind);

  // True when enough was seen since the last fit(); then the owner calls it and ranks again.
  bool fit_due() const { return used_since_fit_ >= fit_every_; }
  void fit(uint32_t request_now);

  // Expected hits per request that a slot spent on such a page brings; 0 when nothing is known.
  double worth(uint32_t page_class, uint32_t bucket) const { return worth_[page_class][bucket]; }

  size_t memory_bytes() const { return sample_.size() * sizeof(Followed); }

 private:
  static constexpr uint32_t kSample = 16384;  // pages followed at once
  static constexpr uint32_t kWays = 8;
  static constexpr uint32_t kSpan = 4;  // the sample reaches back this many pools of pages

  using Table = std::array<std::array<double, kBuckets>, kClasses>;
  struct Followed {
    uint32_t tag = 0;  // 0: empty
    uint32_t request = 0;
    uint8_t page_class = 0;
    bool missed = false;  // its insertion belongs to a miss that was counted
  };

  Table exposure(uint32_t request_now) const;
  void rate_class(uint32_t page_class, const std::array<double, kBuckets>& mean,
                  const std::array<double, kBuckets>& watched);
  void forget_half_if_many();

  uint32_t sample_below_ = 0;  // pages whose hashed tag is below are followed
  uint32_t fit_every_ = 0;
  uint32_t used_since_fit_ = 0;
  uint64_t used_ = 0;  // before that
  std::vector<Followed> sample_;
  Table hits_{};    // used again at this age
  Table unused_{};  // left the sample at this age
  Table worth_{};
};

}  // namespace kvsidecar
