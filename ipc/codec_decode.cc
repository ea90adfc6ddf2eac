// SPDX-License-Identifier: Apache-2.0
#include "ipc/codec.h"

#include "ipc/identity.h"
#include "kvsidecar_generated.h"

namespace kvsidecar {
namespace {

constexpr flatbuffers::uoffset_t kDepthMax = 8, kTablesMax = 64;
constexpr size_t kRecordAlignment = 16;

bool aligned(const void* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

// A field is wrong: name, value, what would be right.
Status bad(const char* record, const char* field, uint64_t value, const std::string& remedy) {
  return invalid(std::string(record) + ": " + field + " is " + std::to_string(value) + "; " +
                 remedy);
}

template <typename Table>
Result<const Table*> verified(Bytes record, const char* name) {
  KV_CHECK(aligned(record.data(), kRecordAlignment));
  if (record.size() > kRequestBytesMax) {
    return bad(name, "size", record.size(), "split the request at 65536 bytes");
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(record.data()), record.size(),
                                 kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    return bad(name, "size", record.size(), "the bytes are not a FlatBuffer of this type");
  }
  return flatbuffers::GetRoot<Table>(record.data());
}

Bytes bytes_of(const flatbuffers::Vector<uint8_t>* vector) {
  if (vector == nullptr) return {};
  return {reinterpret_cast<const std::byte*>(vector->data()), vector->size()};
}

// The verifier knows a vector's bounds, not that its elements are aligned.
template <typename Plain, typename Vector>
bool span_of(const Vector* vector, std::span<const Plain>& out) {
  if (vector == nullptr || vector->size() == 0) return true;
  if (!aligned(vector->Data(), alignof(Plain))) return false;
  out = {reinterpret_cast<const Plain*>(vector->Data()), vector->size()};
  return true;
}

Status misaligned(const char* record, const char* field) {
  return invalid(std::string(record) + ": " + field +
                 " is a vector whose elements aren't aligned; build it with FlatBuffers");
}

Status read_coordinate(const char* record, const wire::Coordinate* in, Coordinate& out) {
  if (in == nullptr) return {};
  out = {in->tp(), in->pp(), in->cp(), in->reserved()};
  if (out.reserved != 0) return bad(record, "coordinate.reserved", out.reserved, "it must be 0");
  return {};
}

template <typename Table>
Status read_keys(const char* record, const Table& table, Keys& out) {
  const Bytes bytes = bytes_of(table.keys());
  const uint32_t key_bytes = table.key_bytes();
  if (key_bytes == 0 || key_bytes > kKeyBytesMax) {
    return bad(record, "key_bytes", key_bytes, "a key has 1 to 64 bytes");
  }
  if (bytes.size() % key_bytes != 0) {
    return bad(record, "keys (bytes)", bytes.size(),
               "it must be a multiple of key_bytes, " + std::to_string(key_bytes));
  }
  out = {bytes, key_bytes};
  if (out.count() == 0 || out.count() > kItemsMax) {
    return bad(record, "keys (items)", out.count(), "a record has 1 to 2048 items");
  }
  return {};
}

Status check_runs(const char* record, const Items& items) {
  for (const Run& run : items.runs) {
    if (run.length == 0) return bad(record, "runs.length", 0, "a run has 1 byte or more");
    if (run.offset > UINT64_MAX - run.length) {
      return bad(record, "runs.offset", run.offset, "offset + length must not pass 2^64");
    }
  }
  for (const RunItem& item : items.run_items) {
    if (item.reserved != 0) {
      return bad(record, "run_items.reserved", item.reserved, "it must be 0");
    }
    if (item.run_count == 0 || item.run_count > kRunsMax) {
      return bad(record, "run_items.run_count", item.run_count, "an item has 1 to 64 runs");
    }
    if (uint64_t{item.first_run} + item.run_count > items.runs.size()) {
      return bad(record, "run_items.first_run", item.first_run,
                 "first_run + run_count must be within the " + std::to_string(items.runs.size()) +
                     " runs of the record");
    }
  }
  return {};
}

template <typename Table>
Status read_items(const char* record, const Table& table, uint32_t keys, Items& out) {
  if (!span_of(table.blocks(), out.blocks)) return misaligned(record, "blocks");
  if (!span_of(table.run_items(), out.run_items)) return misaligned(record, "run_items");
  if (!span_of(table.runs(), out.runs)) return misaligned(record, "runs");
  if (!out.blocks.empty() && !(out.run_items.empty() && out.runs.empty())) {
    return bad(record, "run_items", out.run_items.size(),
               "items are blocks or run_items with runs, not both");
  }
  const size_t items = out.blocks.size() + out.run_items.size();
  if (items != keys) {
    return bad(
        record, "items", items,
        "there must be one block or run item for each of the " + std::to_string(keys) + " keys");
  }
  return check_runs(record, out);
}

// What Put and Get share.
template <typename Table, typename Request>
Status read_transfer(const char* record, const Table& table, Request& out) {
  out.namespace_handle = table.namespace_handle();
  if (Status read = read_keys(record, table, out.keys); !read.ok()) return read;
  if (Status read = read_items(record, table, out.keys.count(), out.items); !read.ok()) return read;
  out.has_coordinate = table.coordinate() != nullptr;
  if (Status read = read_coordinate(record, table.coordinate(), out.coordinate); !read.ok()) {
    return read;
  }
  if (const wire::Fence* fence = table.fence(); fence != nullptr) {
    out.fence = {fence->index(), fence->reserved(), fence->value()};
    if (out.fence.reserved != 0) {
      return bad(record, "fence.reserved", out.fence.reserved, "it must be 0");
    }
  }
  return {};
}

Status check_descriptions(const PutRequest& put) {
  if (put.description_ends.empty()) {
    if (put.descriptions.empty()) return {};
    return bad("put", "description_ends", 0, "give one end for each item, or no descriptions");
  }
  if (put.description_ends.size() != put.keys.count()) {
    return bad("put", "description_ends", put.description_ends.size(),
               "there must be one for each of the " + std::to_string(put.keys.count()) + " items");
  }
  uint32_t start = 0;
  for (const uint32_t end : put.description_ends) {
    if (end < start) return bad("put", "description_ends", end, "ends must not descend");
    if (end - start > kDescriptionBytesMax) {
      return bad("put", "description (bytes)", end - start, "a description has at most 16384");
    }
    start = end;
  }
  if (start != put.descriptions.size()) {
    return bad(
        "put", "description_ends", start,
        "the last must be the descriptions' size, " + std::to_string(put.descriptions.size()));
  }
  return {};
}

Status check_id(const char* record, const char* field, Bytes id, bool may_be_empty) {
  if (id.size() == 16 || (id.empty() && may_be_empty)) return {};
  return bad(record, field, id.size(), may_be_empty ? "give 16 bytes or none" : "give 16 bytes");
}

}  // namespace

Result<AttachRequest> decode_attach(Bytes record) {
  auto table = verified<wire::Attach>(record, "attach");
  if (!table) return table.status();
  const wire::Attach& in = **table;
  AttachRequest out{.identity = bytes_of(in.identity()),
                    .group = bytes_of(in.group()),
                    .group_size = in.group_size(),
                    .rank = in.rank(),
                    .coordinate = {},
                    .description_bytes_max = in.description_bytes_max(),
                    .detach = in.detach()};
  if (out.identity.empty() || out.identity.size() > kIdentityBytesMax) {
    return bad("attach", "identity (bytes)", out.identity.size(), "it has 1 to 16384 bytes");
  }
  if (Status checked = check_id("attach", "group (bytes)", out.group, true); !checked.ok()) {
    return checked;
  }
  if (!out.group.empty() && out.group_size == 0) {
    return bad("attach", "group_size", 0, "a group has 1 rank or more");
  }
  if (out.group.empty() && out.group_size > 1) {
    return bad("attach", "group_size", out.group_size, "name the group, or attach alone with 1");
  }
  const uint32_t ranks = out.group_size == 0 ? 1 : out.group_size;
  if (out.rank >= ranks && out.rank != kCoordinatorRank) {
    return bad(
        "attach", "rank", out.rank,
        "it must be below group_size, " + std::to_string(ranks) + ", or 65535 = coordinator");
  }
  if (out.description_bytes_max > kDescriptionBytesMax) {
    return bad("attach", "description_bytes_max", out.description_bytes_max, "16384 is the most");
  }
  Status read = read_coordinate("attach", in.coordinate(), out.coordinate);
  if (!read.ok()) return read;
  return out;
}

Result<RegisterRegionRequest> decode_register_region(Bytes record) {
  const char* name = "register-region";
  auto table = verified<wire::RegisterRegion>(record, name);
  if (!table) return table.status();
  const wire::RegisterRegion& in = **table;
  const RegisterRegionRequest out{in.token(),  in.kind(),        in.bytes(),
                                  in.offset(), in.echo_offset(), in.nonce()};
  if (out.kind != 0) return bad(name, "kind", out.kind, "this daemon knows only 0 = host fd");
  if (out.bytes < sizeof out.nonce) return bad(name, "bytes", out.bytes, "a region has 8 or more");
  if (out.offset > static_cast<uint64_t>(INT64_MAX) ||
      out.bytes > static_cast<uint64_t>(INT64_MAX) - out.offset) {
    return bad(name, "offset", out.offset, "offset + bytes must not pass 2^63");
  }
  if (out.echo_offset % 8 != 0 || out.echo_offset > out.bytes - sizeof out.nonce) {
    return bad(name, "echo_offset", out.echo_offset,
               "it must be a multiple of 8 with 8 bytes of the region behind it");
  }
  return out;
}

Result<RegisterLayoutRequest> decode_register_layout(Bytes record) {
  const char* name = "register-layout";
  auto table = verified<wire::RegisterLayout>(record, name);
  if (!table) return table.status();
  RegisterLayoutRequest out{(*table)->blocks(), {}};
  if (!span_of((*table)->runs(), out.runs)) return misaligned(name, "runs");
  if (out.blocks == 0) return bad(name, "blocks", 0, "a layout has 1 block or more");
  if (out.runs.empty() || out.runs.size() > kItemsMax) {
    return bad(name, "runs", out.runs.size(), "a layout has 1 to 2048 runs");
  }
  for (const LayoutRun& run : out.runs) {
    if (run.run_length == 0) return bad(name, "runs.run_length", 0, "it must be 1 or more");
    uint64_t last = 0, end = 0;
    if (__builtin_mul_overflow(run.block_stride, uint64_t{out.blocks} - 1, &last) ||
        __builtin_add_overflow(last, run.base, &last) ||
        __builtin_add_overflow(last, run.run_length, &end)) {
      return bad(name, "runs.block_stride", run.block_stride,
                 "base + stride * (blocks - 1) + run_length must not pass 2^64");
    }
  }
  return out;
}

Result<UnregisterRequest> decode_unregister(Bytes record) {
  auto table = verified<wire::Unregister>(record, "unregister");
  if (!table) return table.status();
  return UnregisterRequest{(*table)->handle()};
}

Result<LookupRequest> decode_lookup(Bytes record) {
  auto table = verified<wire::Lookup>(record, "lookup");
  if (!table) return table.status();
  const wire::Lookup& in = **table;
  LookupRequest out;
  if (Status read = read_keys("lookup", in, out.keys); !read.ok()) return read;
  out.offset = in.offset();
  out.total = in.total();
  out.ticket = in.ticket();
  out.lease_ms = in.lease_ms();
  out.prefetch = in.prefetch();
  if (out.total > kLookupKeysMax) {
    return bad("lookup", "total", out.total, "a lookup has at most 32768 keys; ask for fewer");
  }
  if (uint64_t{out.offset} + out.keys.count() > out.total) {
    return bad("lookup", "offset", out.offset,
               "offset + keys must be within total, " + std::to_string(out.total));
  }
  if (!span_of(in.pools(), out.pools)) return misaligned("lookup", "pools");
  if (out.pools.empty() || out.pools.size() > kPoolsMax) {
    return bad("lookup", "pools", out.pools.size(), "a lookup asks 1 to 16 pools");
  }
  if (out.total * uint64_t{out.pools.size()} > kLookupFindsMax) {
    return bad("lookup", "pools", out.pools.size(),
               "keys times pools are at most 65536; ask for fewer than " +
                   std::to_string(out.total) + " keys");
  }
  for (const PoolPolicy& pool : out.pools) {
    const auto policy = static_cast<uint32_t>(pool.policy);
    if (policy > 1) {
      return bad("lookup", "pools.policy", policy, "use 0 = all_pages or 1 = trailing_pages");
    }
    if (pool.policy == HitPolicy::kTrailingPages && pool.pages == 0) {
      return bad("lookup", "pools.pages", 0, "trailing_pages needs 1 page or more");
    }
  }
  return out;
}

Result<PutRequest> decode_put(Bytes record) {
  auto table = verified<wire::Put>(record, "put");
  if (!table) return table.status();
  const wire::Put& in = **table;
  PutRequest out;
  if (Status read = read_transfer("put", in, out); !read.ok()) return read;
  out.durable = in.durable();
  out.position = in.position();
  out.prompt_pages = in.prompt_pages();
  out.descriptions = bytes_of(in.descriptions());
  if (!span_of(in.description_ends(), out.description_ends)) {
    return misaligned("put", "description_ends");
  }
  if (Status checked = check_descriptions(out); !checked.ok()) return checked;
  return out;
}

Result<GetRequest> decode_get(Bytes record) {
  auto table = verified<wire::Get>(record, "get");
  if (!table) return table.status();
  GetRequest out;
  if (Status read = read_transfer("get", **table, out); !read.ok()) return read;
  out.lease = (*table)->lease();
  out.progress = (*table)->progress();
  return out;
}

Result<ReleaseRequest> decode_release(Bytes record) {
  auto table = verified<wire::Release>(record, "release");
  if (!table) return table.status();
  return ReleaseRequest{(*table)->lease()};
}

Result<CancelRequest> decode_cancel(Bytes record) {
  auto table = verified<wire::Cancel>(record, "cancel");
  if (!table) return table.status();
  return CancelRequest{(*table)->request()};
}

Result<DeleteRequest> decode_delete(Bytes record) {
  auto table = verified<wire::Delete>(record, "delete");
  if (!table) return table.status();
  DeleteRequest out{(*table)->namespace_handle(), {}};
  if (Status read = read_keys("delete", **table, out.keys); !read.ok()) return read;
  return out;
}

Result<ClearRequest> decode_clear(Bytes record) {
  auto table = verified<wire::Clear>(record, "clear");
  if (!table) return table.status();
  const ClearRequest out{(*table)->namespace_handle(), bytes_of((*table)->namespace_id())};
  if (Status checked = check_id("clear", "namespace_id (bytes)", out.namespace_id, true);
      !checked.ok()) {
    return checked;
  }
  if ((out.namespace_handle != 0) == !out.namespace_id.empty()) {
    return bad("clear", "namespace_handle", out.namespace_handle,
               "name the namespace by its handle or by its id, and not by both");
  }
  return out;
}

Result<StatRequest> decode_stat(Bytes record) {
  auto table = verified<wire::Stat>(record, "stat");
  if (!table) return table.status();
  const uint8_t what = (*table)->what();
  if (what > static_cast<uint8_t>(StatWhat::kDrain)) {
    return bad("stat", "what", what, "0 = status, 1 = namespaces, 2 = sessions, 3 = drain");
  }
  return StatRequest{static_cast<StatWhat>(what), (*table)->offset()};
}

Result<WhyRequest> decode_why(Bytes record) {
  auto table = verified<wire::Why>(record, "why");
  if (!table) return table.status();
  const WhyRequest out{bytes_of((*table)->namespace_id()), bytes_of((*table)->key()),
                       (*table)->offset()};
  if (Status checked = check_id("why", "namespace_id (bytes)", out.namespace_id, true);
      !checked.ok()) {
    return checked;
  }
  if (out.key.empty() || out.key.size() > kKeyBytesMax) {
    return bad("why", "key (bytes)", out.key.size(), "a key has 1 to 64 bytes");
  }
  return out;
}

}  // namespace kvsidecar
