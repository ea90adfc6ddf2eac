// SPDX-License-Identifier: Apache-2.0
//
// The most page hits that any cache could have on a known list of requests: a bound to set a hit
// rate against. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvsidecar {

// requests: the page numbers of each request, in order; capacity: pages the cache holds at once.
//
// A request's hits are its pages that are resident when it starts; then all its pages are offered
// to the cache. Of what it holds and is offered it keeps the `capacity` pages that are asked for
// again soonest (Belady's MIN with bypass, over whole requests), so no other choice has more hits.
// Where equal numbers mean equal prefixes, a page is never asked for before its ancestors, and of
// equals the deeper page goes first: what is resident is then a leading run of every prompt, and
// the bound is reached exactly.
uint64_t clairvoyant_hits(const std::vector<std::vector<uint64_t>>& requests, size_t capacity);

}  // namespace kvsidecar
