// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/eviction_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvsidecar {
namespace {

constexpr double kPriorPages = 50;       // weight of the mean of all classes
constexpr double kEventsMax = 1u << 16;  // past this, older evidence counts half
constexpr uint32_t kFitEveryMin = 1024;
// A fit costs about 100 us. Small pools pay it often only while there is little to go by.
constexpr uint32_t kFitEveryLater = 8192;
constexpr uint32_t kFitShare = 4;  // of what was seen

double width_of(uint32_t bucket) {
  return ReuseModel::bucket_floor(bucket + 1) - ReuseModel::bucket_floor(bucket);
}

}  // namespace

ReuseModel::ReuseModel(uint32_t slots_max) : sample_(kSample) { resize(slots_max); }

void ReuseModel::resize(uint32_t slots_max) {
  const double share = double{kSample} / (double{kSpan} * std::max<uint32_t>(1, slots_max));
  sample_below_ = share >= 1 ? UINT32_MAX : static_cast<uint32_t>(share * UINT32_MAX);
  fit_every_ = std::max<uint32_t>(kFitEveryMin, slots_max / 32);
}

uint8_t ReuseModel::class_of(uint32_t uses, bool last) {
  if (last) return uses == 0 ? 8 : 9;
  if (uses < 4) return static_cast<uint8_t>(uses);
  return uses < 8 ? 4 : uses < 16 ? 5 : uses < 64 ? 6 : 7;
}

uint32_t ReuseModel::bucket_of(uint32_t age_requests) {
  if (age_requests < 2) return age_requests;
  const uint32_t msb = 31u - static_cast<uint32_t>(__builtin_clz(age_requests));
  return std::min(2 * msb + ((age_requests >> (msb - 1)) & 1), kBuckets - 1);
}

uint32_t ReuseModel::bucket_floor(uint32_t bucket) {
  if (bucket < 2) return bucket;
  return (2u + (bucket & 1)) << (bucket / 2 - 1);
}

void ReuseModel::used(uint32_t tag, uint8_t page_class, uint32_t request, Kind kind) {
  ++used_since_fit_;
  const uint32_t hashed = tag * 0x9E3779B1u;
  if (hashed > sample_below_) return;
  const uint32_t place = (hashed ^ (hashed >> 15)) * 0x85EBCA77u;
  Followed* set = &sample_[(place >> 16) % (kSample / kWays) * kWays];
  Followed* chosen = nullptr;
  for (uint32_t i = 0; i < kWays; ++i) {
    if (set[i].tag == tag) chosen = &set[i];
  }
  if (chosen != nullptr) {
    if (!(kind == Kind::kInserted && chosen->missed)) {
      hits_[chosen->page_class][bucket_of(request - chosen->request)] += 1;
    }
  } else {
    chosen = set;
    for (uint32_t i = 0; i < kWays && chosen->tag != 0; ++i) {
      if (set[i].tag == 0 || request - set[i].request > request - chosen->request) chosen = &set[i];
    }
    if (chosen->tag != 0) {
      unused_[chosen->page_class][bucket_of(request - chosen->request)] += 1;
    }
  }
  *chosen = Followed{tag, request, page_class, kind == Kind::kMissed};
}

// Page-requests watched in each bucket, those of pages still followed included.
ReuseModel::Table ReuseModel::exposure(uint32_t request_now) const {
  Table left = unused_;
  for (const Followed& f : sample_) {
    if (f.tag != 0) left[f.page_class][bucket_of(request_now - f.request)] += 1;
  }
  Table watched;
  for (uint32_t c = 0; c < kClasses; ++c) {
    double longer = 0;
    for (uint32_t b = kBuckets; b-- > 0;) {
      const double here = left[c][b] + hits_[c][b];
      watched[c][b] = (longer + here / 2) * width_of(b);
      longer += here;
    }
  }
  return watched;
}

void ReuseModel::fit(uint32_t request_now) {
  used_ += std::exchange(used_since_fit_, 0);
  const uint64_t share = std::min<uint64_t>(used_ / kFitShare, kFitEveryLater);
  fit_every_ = std::max(fit_every_, static_cast<uint32_t>(share));
  const Table watched = exposure(request_now);
  std::array<double, kBuckets> mean;  // hits per page and request, all classes together
  for (uint32_t b = 0; b < kBuckets; ++b) {
    double hits = 0;
    double time = 0;
    for (uint32_t c = 0; c < kClasses; ++c) {
      hits += hits_[c][b];
      time += watched[c][b];
    }
    mean[b] = time > 0 ? hits / time : 0;
  }
  for (uint32_t c = 0; c < kClasses; ++c) rate_class(c, mean, watched[c]);
  forget_half_if_many();
}

void ReuseModel::rate_class(uint32_t page_class, const std::array<double, kBuckets>& mean,
                            const std::array<double, kBuckets>& watched) {
  std::array<double, kBuckets> hit;   // chance of a hit in the bucket, once there
  std::array<double, kBuckets> time;  // expected requests spent in it
  for (uint32_t b = 0; b < kBuckets; ++b) {
    const double prior = kPriorPages * width_of(b);
    const double rate = (hits_[page_class][b] + prior * mean[b]) / (watched[b] + prior);
    hit[b] = 1 - std::exp(-rate * width_of(b));
    time[b] = rate > 0 ? hit[b] / rate : width_of(b);
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    double alive = 1;
    double hits = 0;
    double spent = 0;
    double best = 0;
    for (uint32_t until = b; until < kBuckets; ++until) {
      hits += alive * hit[until];
      spent += alive * time[until];
      alive *= 1 - hit[until];
      best = std::max(best, hits / spent);
    }
    worth_[page_class][b] = best;
  }
}

void ReuseModel::forget_half_if_many() {
  double events = 0;
  for (uint32_t c = 0; c < kClasses; ++c) {
    for (uint32_t b = 0; b < kBuckets; ++b) events += hits_[c][b] + unused_[c][b];
  }
  if (events <= kEventsMax) return;
  for (uint32_t c = 0; c < kClasses; ++c) {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      hits_[c][b] /= 2;
      unused_[c][b] /= 2;
    }
  }
}

}  // namespace kvsidecar
