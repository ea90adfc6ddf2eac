// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/trace/shape.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace kvsidecar {
namespace {

// Counts of marked positions in front of a position, in logarithmic time (a binary indexed tree).
class MarkedBefore {
 public:
  explicit MarkedBefore(size_t positions) : sums_(positions + 1, 0) {}
  void add(size_t position, int64_t amount) {
    for (size_t i = position + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += amount;
  }
  int64_t count(size_t position) const {
    int64_t sum = 0;
    for (size_t i = position; i > 0; i -= i & (~i + 1)) sum += sums_[i];
    return sum;
  }

 private:
  std::vector<int64_t> sums_;
};

uint64_t percentile(const std::vector<uint64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

// Marks each page at the position of its last access, so the marks since then are the distinct
// pages asked for in between.
std::vector<uint64_t> reuse_distances(const Trace& trace, size_t accesses) {
  MarkedBefore marks(accesses);
  std::unordered_map<uint64_t, size_t> last;
  std::vector<uint64_t> distances;
  size_t position = 0;
  for (const TraceRequest& request : trace.requests) {
    for (const uint64_t page : request.pages) {
      const auto [found, is_new] = last.try_emplace(page, position);
      if (!is_new) {
        distances.push_back(
            static_cast<uint64_t>(marks.count(position) - marks.count(found->second + 1)));
        marks.add(found->second, -1);
        found->second = position;
      }
      marks.add(position++, 1);
    }
  }
  std::sort(distances.begin(), distances.end());
  return distances;
}

// A page number stands for its whole prefix, so page k-1 alone says whether the first k are shared.
double share_of_first(const Trace& trace, size_t pages) {
  std::unordered_set<uint64_t> seen;
  size_t shared = 0;
  for (const TraceRequest& request : trace.requests) {
    if (request.pages.size() >= pages && !seen.insert(request.pages[pages - 1]).second) ++shared;
  }
  return static_cast<double>(shared) / static_cast<double>(trace.requests.size());
}

// Measured by measure_shape on the first 1,000, 2,000, 4,000, 8,000 and all requests.
constexpr std::array<Shape, 5> kReference = {{{1000, 27305, 0.2121, 27.30, 3, 17, 58, 176, 0.2190,
                                               0.1820, 0.1410, 0.0920, 2743, 5392, 8699, 12558},
                                              {2000, 54559, 0.2891, 27.28, 3, 16, 58, 195, 0.2795,
                                               0.2310, 0.1885, 0.1255, 3530, 5821, 11571, 18075},
                                              {4000, 105904, 0.3256, 26.48, 2, 16, 57, 186, 0.3342,
                                               0.2780, 0.2288, 0.1462, 3932, 7619, 15171, 25706},
                                              {8000, 197462, 0.3508, 24.68, 2, 15, 55, 176, 0.3719,
                                               0.3011, 0.2394, 0.1544, 4103, 8194, 17330, 29110},
                                              {12031, 288500, 0.3664, 23.98, 2, 14, 54, 167, 0.3872,
                                               0.3127, 0.2469, 0.1552, 4292, 8357, 17849, 31588}}};

}  // namespace

Shape measure_shape(const Trace& trace) {
  Shape shape;
  if (trace.requests.empty()) return shape;
  shape.requests = trace.requests.size();
  std::vector<uint64_t> lengths;
  for (const TraceRequest& request : trace.requests) {
    lengths.push_back(request.pages.size());
    shape.accesses += request.pages.size();
  }
  std::sort(lengths.begin(), lengths.end());
  shape.pages_mean = static_cast<double>(shape.accesses) / static_cast<double>(shape.requests);
  shape.pages_p10 = percentile(lengths, 0.1);
  shape.pages_p50 = percentile(lengths, 0.5);
  shape.pages_p90 = percentile(lengths, 0.9);
  shape.pages_p99 = percentile(lengths, 0.99);
  const std::vector<uint64_t> distances = reuse_distances(trace, shape.accesses);
  shape.repeated_share =
      static_cast<double>(distances.size()) / static_cast<double>(shape.accesses);
  shape.distance_p25 = percentile(distances, 0.25);
  shape.distance_p50 = percentile(distances, 0.5);
  shape.distance_p75 = percentile(distances, 0.75);
  shape.distance_p90 = percentile(distances, 0.9);
  shape.share_first_2 = share_of_first(trace, 2);
  shape.share_first_4 = share_of_first(trace, 4);
  shape.share_first_8 = share_of_first(trace, 8);
  shape.share_first_16 = share_of_first(trace, 16);
  return shape;
}

const Shape& reference_shape(uint64_t requests) {
  const auto ratio = [requests](const Shape& shape) {
    return std::abs(std::log(static_cast<double>(shape.requests) /
                             static_cast<double>(std::max<uint64_t>(requests, 1))));
  };
  return *std::min_element(kReference.begin(), kReference.end(),
                           [&](const Shape& a, const Shape& b) { return ratio(a) < ratio(b); });
}

std::string compare_shapes(const Shape& trace, const Shape& reference) {
  std::string table;
  const auto row = [&table](const char* name, double a, double b, const char* format) {
    char left[32], right[32], line[128];
    std::snprintf(left, sizeof left, format, a);
    std::snprintf(right, sizeof right, format, b);
    std::snprintf(line, sizeof line, "  %-44s %12s %12s\n", name, left, right);
    table += line;
  };
  const auto count = [&row](const char* name, uint64_t a, uint64_t b) {
    row(name, static_cast<double>(a), static_cast<double>(b), "%.0f");
  };
  const auto share = [&row](const char* name, double a, double b) {
    row(name, 100 * a, 100 * b, "%.1f %%");
  };
  char head[128];
  std::snprintf(head, sizeof head, "  %-44s %12s %12s\n", "shape", "this trace", "reference");
  table += head;
  count("requests", trace.requests, reference.requests);
  share("pages asked for again", trace.repeated_share, reference.repeated_share);
  row("pages of a prompt, mean", trace.pages_mean, reference.pages_mean, "%.1f");
  count("pages of a prompt, p10", trace.pages_p10, reference.pages_p10);
  count("pages of a prompt, p50", trace.pages_p50, reference.pages_p50);
  count("pages of a prompt, p90", trace.pages_p90, reference.pages_p90);
  count("pages of a prompt, p99", trace.pages_p99, reference.pages_p99);
  share("prompts that share their first 2 pages", trace.share_first_2, reference.share_first_2);
  share("prompts that share their first 4 pages", trace.share_first_4, reference.share_first_4);
  share("prompts that share their first 8 pages", trace.share_first_8, reference.share_first_8);
  share("prompts that share their first 16 pages", trace.share_first_16, reference.share_first_16);
  count("distinct pages between repeats, p25", trace.distance_p25, reference.distance_p25);
  count("distinct pages between repeats, p50", trace.distance_p50, reference.distance_p50);
  count("distinct pages between repeats, p75", trace.distance_p75, reference.distance_p75);
  count("distinct pages between repeats, p90", trace.distance_p90, reference.distance_p90);
  return table;
}

}  // namespace kvsidecar
