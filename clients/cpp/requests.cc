// SPDX-License-Identifier: Apache-2.0
// From the C arguments to operations: checked here as far as the client can know, copied, with the
// daemon's handles filled in.
#include <algorithm>
#include <cstring>

#include "clients/cpp/client.h"

namespace kvsidecar::clientlib {
namespace {

Status unknown(const char* what, uint64_t id) {
  return {Code::kUnknownHandle,
          std::string(what) + " " + std::to_string(id) + " is not known to this client"};
}

Status check_keys(const kvs_keys& keys, uint32_t count_max) {
  if (keys.key_bytes == 0 || keys.key_bytes > kKeyBytesMax)
    return invalid("keys.key_bytes " + std::to_string(keys.key_bytes) + " must be 1 to 64");
  if (keys.count == 0 || keys.count > count_max)
    return invalid("keys.count " + std::to_string(keys.count) + " must be 1 to " +
                   std::to_string(count_max));
  if (keys.bytes == nullptr) return invalid("keys.bytes is NULL");
  return {};
}

void take_keys(const kvs_keys& keys, Operation& op) {
  const auto* bytes = static_cast<const std::byte*>(keys.bytes);
  op.key_bytes = keys.key_bytes;
  op.count = keys.count;
  op.keys.assign(bytes, bytes + size_t{keys.key_bytes} * keys.count);
}

Status take_descriptions(const kvs_transfer_args& args, Operation& op) {
  if (op.type != RecordType::kPut || args.descriptions == nullptr) return {};
  if (args.description_ends == nullptr) return invalid("description_ends is NULL");
  uint32_t begin = 0;
  for (uint32_t i = 0; i < op.count; ++i) {
    const uint32_t end = args.description_ends[i];
    if (end < begin || end - begin > kDescriptionBytesMax)
      return invalid("description_ends[" + std::to_string(i) + "] is " + std::to_string(end) +
                     ": it must not be below the one before, nor more than 16384 above it");
    begin = end;
  }
  op.description_ends.assign(args.description_ends, args.description_ends + op.count);
  const auto* bytes = static_cast<const std::byte*>(args.descriptions);
  op.descriptions.assign(bytes, bytes + begin);
  return {};
}

}  // namespace

Status Client::ready_namespace(uint64_t id, bool stale_too, Handle& handle) {
  const auto found = core_.objects.namespaces.find(id);
  if (found == core_.objects.namespaces.end()) return unknown("namespace", id);
  if (!core_.current || !core_.current->ready)
    return {Code::kUnavailable, "no daemon answers at the moment"};
  const NamespaceObject& space = found->second;
  if (!space.refused.ok()) return space.refused;
  if (space.handle == 0) return {Code::kUnavailable, "the namespace isn't attached yet"};
  if (space.stale && !stale_too)
    return {Code::kStaleNamespace,
            "the namespace was cleared by somebody else; clear it or attach anew"};
  handle = space.handle;
  return {};
}

Status Client::start(std::unique_ptr<Operation> op, uint64_t timeout_ns, uint64_t& id) {
  if (!core_.current || !core_.current->ready)
    return {Code::kUnavailable, "no daemon answers at the moment"};
  if (core_.operations() >= options_.operations_max)
    return {Code::kBusy, "operations_max " + std::to_string(options_.operations_max) +
                             " operations are in flight or not freed; free some"};
  op->link = core_.current;
  const uint64_t now_ns = monotonic_ns();
  const uint64_t deadline_ns = deadline(timeout_ns, now_ns);
  op->deadline_ns = deadline_ns;
  id = core_.begin(std::move(op), now_ns).id;
  if (deadline_ns < keeper_until_ns_) {
    keeper_until_ns_ = deadline_ns;
    wake_keeper();
  }
  return {};
}

Status Client::lookup(const kvs_lookup_args& args, uint64_t& id) {
  if (Status checked = check_keys(args.keys, kLookupKeysMax); !checked.ok()) return checked;
  if (args.pools == nullptr || args.pool_count == 0 || args.pool_count > kPoolsMax)
    return invalid("pool_count " + std::to_string(args.pool_count) + " must be 1 to 16");
  if (args.keys.count * args.pool_count > kLookupFindsMax)
    return invalid("keys.count " + std::to_string(args.keys.count) + " times pool_count " +
                   std::to_string(args.pool_count) +
                   " is more than 65536: one lookup would hold up everybody; look up fewer keys");
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kLookup;
  take_keys(args.keys, *op);
  op->ticket = args.ticket;
  op->lease_ms = args.lease_ms;
  op->prefetch = args.prefetch != 0;
  Lock lock(mutex_);
  for (size_t i = 0; i < args.pool_count; ++i) {
    const kvs_pool_policy& pool = args.pools[i];
    if (pool.policy > KVS_TRAILING_PAGES)
      return invalid("policy " + std::to_string(pool.policy) + " of pool is not known");
    if ((pool.policy == KVS_TRAILING_PAGES) != (pool.pages > 0))
      return invalid("pages of pool must be 1 or more under trailing_pages, and 0 else");
    PoolPolicy policy{0, static_cast<HitPolicy>(pool.policy), pool.pages};
    if (Status ready = ready_namespace(pool.ns, false, policy.namespace_handle); !ready.ok())
      return ready;
    op->pools.push_back(policy);
  }
  const uint32_t each = keys_that_fit(op->key_bytes, 0, op->count);
  const uint32_t cells = core_.current->memory.geometry.completion_cells;
  if ((op->count + each - 1) / each + kCreditsKept > cells)
    return invalid("keys.count " + std::to_string(op->count) + ": the answer needs more than the " +
                   std::to_string(cells - kCreditsKept) +
                   " cells of this session's ring; look up fewer keys");
  return start(std::move(op), args.timeout_ns, id);
}

// Items that are blocks; staged if one of their layouts is.
Status Client::take_blocks(const kvs_items& items, Operation& op) {
  std::vector<const LayoutObject*> layouts(op.count);
  uint64_t last = 0;
  const LayoutObject* layout = nullptr;
  for (uint32_t i = 0; i < op.count; ++i) {
    const uint64_t id = items.layouts != nullptr ? items.layouts[i] : items.layout;
    if (layout == nullptr || id != last) {
      const auto found = core_.objects.layouts.find(id);
      if (found == core_.objects.layouts.end()) return unknown("layout", id);
      layout = &found->second;
      last = id;
      if (!layout->refused.ok()) return layout->refused;
      if (layout->handle == 0) return {Code::kUnavailable, "the layout isn't registered yet"};
      op.staged = op.staged || layout->staged;
    }
    if (items.blocks[i] >= layout->blocks)
      return invalid("blocks[" + std::to_string(i) + "] is " + std::to_string(items.blocks[i]) +
                     "; the layout has " + std::to_string(layout->blocks));
    layouts[i] = layout;
  }
  for (uint32_t i = 0; i < op.count; ++i) {
    if (!op.staged) {
      op.blocks.push_back({layouts[i]->handle, items.blocks[i], 0});
      continue;
    }
    for (const LayoutRun& run : layouts[i]->runs) {
      const uint64_t offset = run.base + run.block_stride * items.blocks[i];
      op.pieces.push_back({core_.objects.regions.at(run.region).base + offset, run.run_length});
      op.staged_regions.push_back(run.region);
    }
    op.piece_ends.push_back(static_cast<uint32_t>(op.pieces.size()));
  }
  return {};
}

Status Client::take_runs(const kvs_items& items, Operation& op) {
  if (items.runs == nullptr || items.run_counts == nullptr)
    return invalid("items: neither blocks nor runs and run_counts are given");
  size_t next = 0;
  for (uint32_t i = 0; i < op.count; ++i) {
    const uint32_t count = items.run_counts[i];
    if (count == 0 || count > kRunsMax)
      return invalid("run_counts[" + std::to_string(i) + "] is " + std::to_string(count) +
                     "; an item has 1 to 64 runs");
    op.run_items.push_back({static_cast<uint32_t>(next), count, 0, 0});
    for (uint32_t r = 0; r < count; ++r, ++next) {
      const kvs_run& run = items.runs[next];
      const auto found = core_.objects.regions.find(run.region);
      if (found == core_.objects.regions.end()) return unknown("region", run.region);
      const RegionObject& region = found->second;
      if (!region.refused.ok()) return region.refused;
      if (region.handle == 0) return {Code::kUnavailable, "the region isn't registered yet"};
      if (run.length == 0 || run.length > region.bytes || run.offset > region.bytes - run.length)
        return invalid("run at offset " + std::to_string(run.offset) + ", length " +
                       std::to_string(run.length) + " is empty or leaves the region's " +
                       std::to_string(region.bytes) + " bytes");
      op.staged = op.staged || region.staged;
      op.runs.push_back({region.handle, run.offset, run.length});
      op.pieces.push_back({region.base + run.offset, run.length});
      op.staged_regions.push_back(run.region);
    }
    op.piece_ends.push_back(static_cast<uint32_t>(op.pieces.size()));
  }
  if (!op.staged) {
    op.pieces.clear();
    op.piece_ends.clear();
    op.staged_regions.clear();
  } else {
    op.run_items.clear();
    op.runs.clear();
  }
  return {};
}

Status Client::transfer(RecordType type, const kvs_transfer_args& args, uint64_t& id) {
  if (Status checked = check_keys(args.keys, UINT32_MAX / kKeyBytesMax); !checked.ok())
    return checked;
  auto op = std::make_unique<Operation>();
  op->type = type;
  take_keys(args.keys, *op);
  op->has_coordinate = args.has_coordinate != 0;
  op->coordinate = {args.coordinate.tp, args.coordinate.pp, args.coordinate.cp,
                    args.coordinate.reserved};
  op->durable = args.durable != 0;
  op->layered = type == RecordType::kGet && args.layered != 0;
  op->position = args.position;
  op->prompt_pages = args.prompt_pages;
  op->lease_to_use = args.lease;
  op->namespace_id = args.ns;
  if (Status taken = take_descriptions(args, *op); !taken.ok()) return taken;
  Lock lock(mutex_);
  if (Status ready = ready_namespace(args.ns, false, op->namespace_handle); !ready.ok())
    return ready;
  if (args.fence != 0) {
    const uint32_t word = fence_word(args.fence);
    if (word >= core_.objects.fence_used.size() || !core_.objects.fence_used[word] ||
        word >= core_.current->memory.geometry.fences)
      return unknown("fence", args.fence);
    op->fence = {word, 0, args.fence_value};
  }
  Status taken =
      args.items.blocks != nullptr ? take_blocks(args.items, *op) : take_runs(args.items, *op);
  if (!taken.ok()) return taken;
  for (uint32_t i = 0; op->staged && i < op->count; ++i)
    if (op->staged_bytes(i) > core_.staging.bytes())
      return invalid("item " + std::to_string(i) + " has " + std::to_string(op->staged_bytes(i)) +
                     " bytes and staging only " + std::to_string(core_.staging.bytes()) +
                     "; raise staging_bytes");
  return start(std::move(op), args.timeout_ns, id);
}

Status Client::remove(uint64_t space, const kvs_keys& keys, uint64_t timeout_ns, uint64_t& id) {
  if (Status checked = check_keys(keys, UINT32_MAX / kKeyBytesMax); !checked.ok()) return checked;
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kDelete;
  take_keys(keys, *op);
  Lock lock(mutex_);
  if (Status ready = ready_namespace(space, false, op->namespace_handle); !ready.ok()) return ready;
  return start(std::move(op), timeout_ns, id);
}

Status Client::release(uint64_t lease, uint64_t timeout_ns, uint64_t& id) {
  if (lease == 0) return invalid("lease is 0");
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kRelease;
  encode(ReleaseRequest{lease}, op->ready);
  Lock lock(mutex_);
  return start(std::move(op), timeout_ns, id);
}

Status Client::noop(uint64_t timeout_ns, uint64_t& id) {
  auto op = std::make_unique<Operation>();  // its type is the default
  Lock lock(mutex_);
  return start(std::move(op), timeout_ns, id);
}

Status Client::clear(uint64_t space, const uint8_t* namespace_id, uint64_t timeout_ns,
                     uint64_t& id) {
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kClear;
  Lock lock(mutex_);
  ClearRequest request{};
  if (namespace_id != nullptr) {
    request.namespace_id = Bytes(reinterpret_cast<const std::byte*>(namespace_id), 16);
  } else if (Status ready = ready_namespace(space, true, request.namespace_handle); !ready.ok()) {
    return ready;
  }
  op->namespace_id = namespace_id != nullptr ? 0 : space;
  encode(request, op->ready);
  return start(std::move(op), timeout_ns, id);
}

Status Client::stat(uint32_t what, uint64_t timeout_ns, uint64_t& id) {
  if (what > KVS_STAT_DRAIN) return invalid("what " + std::to_string(what) + " is not known");
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kStat;
  op->what = static_cast<StatWhat>(what);
  Lock lock(mutex_);
  return start(std::move(op), timeout_ns, id);
}

Status Client::why(const uint8_t* namespace_id, Bytes key, uint64_t timeout_ns, uint64_t& id) {
  if (key.empty() || key.size() > kKeyBytesMax || key.data() == nullptr)
    return invalid("key_bytes " + std::to_string(key.size()) + " must be 1 to 64");
  auto op = std::make_unique<Operation>();
  op->type = RecordType::kWhy;
  op->keys.assign(key.begin(), key.end());
  if (namespace_id != nullptr) {
    const auto* bytes = reinterpret_cast<const std::byte*>(namespace_id);
    op->target_id.assign(bytes, bytes + 16);
  }
  Lock lock(mutex_);
  return start(std::move(op), timeout_ns, id);
}

}  // namespace kvsidecar::clientlib
