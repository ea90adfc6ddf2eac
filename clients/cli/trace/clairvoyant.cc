// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/trace/clairvoyant.h"

#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>

namespace kvsidecar {
namespace {

constexpr size_t kNever = SIZE_MAX;

// For each access, the next request that asks for the page.
std::vector<std::vector<size_t>> next_uses(const std::vector<std::vector<uint64_t>>& requests) {
  std::vector<std::vector<size_t>> next(requests.size());
  std::unordered_map<uint64_t, size_t> seen;
  for (size_t r = requests.size(); r-- > 0;) {
    next[r].reserve(requests[r].size());
    for (const uint64_t page : requests[r]) {
      const auto it = seen.find(page);
      next[r].push_back(it == seen.end() || it->second == r ? kNever : it->second);
    }
    for (const uint64_t page : requests[r]) seen[page] = r;
  }
  return next;
}

}  // namespace

uint64_t clairvoyant_hits(const std::vector<std::vector<uint64_t>>& requests, size_t capacity) {
  using Rank = std::tuple<size_t, size_t, uint64_t>;  // next use, position, page: greatest goes
  const std::vector<std::vector<size_t>> next = next_uses(requests);
  std::set<Rank> order;
  std::unordered_map<uint64_t, Rank> resident;
  uint64_t hits = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    for (const uint64_t page : requests[r]) hits += resident.count(page);
    for (size_t i = 0; i < requests[r].size(); ++i) {
      const uint64_t page = requests[r][i];
      if (const auto it = resident.find(page); it != resident.end()) {
        order.erase(it->second);
        resident.erase(it);
      }
      if (next[r][i] == kNever) continue;
      const Rank rank{next[r][i], i, page};
      resident.emplace(page, rank);
      order.insert(rank);
      if (resident.size() <= capacity) continue;
      const auto farthest = std::prev(order.end());
      resident.erase(std::get<2>(*farthest));
      order.erase(farthest);
    }
  }
  return hits;
}

}  // namespace kvsidecar
