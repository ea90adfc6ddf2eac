// SPDX-License-Identifier: Apache-2.0
// C ABI: regions, layouts, fences, namespaces, identity.
#include "clients/cpp/c_boundary.h"
#include "clients/cpp/identity.h"

using namespace kvsidecar;
using namespace kvsidecar::clientlib;

namespace {

// A layout's record holds no more.
constexpr size_t kLayoutRunsMax = (kRequestBytesMax - kRecordOverheadBytes) / sizeof(LayoutRun);

Status give_bytes(const Result<std::vector<std::byte>>& made, void* out, size_t capacity,
                  size_t* bytes) {
  if (!made.ok()) return made.status();
  if (bytes == nullptr) return invalid("bytes is NULL");
  *bytes = made->size();
  if (made->size() > capacity || out == nullptr)
    return {Code::kOverQuota, "capacity is " + std::to_string(capacity) + "; " +
                                  std::to_string(made->size()) + " bytes are needed"};
  std::memcpy(out, made->data(), made->size());
  return {};
}

Result<NamespaceFields> take_fields(const kvs_namespace_fields* fields) {
  kvs_namespace_fields taken{};
  if (Status status = take_struct("fields", fields, taken); !status.ok()) return status;
  return to_fields(taken);
}

void set_detach(NamespaceFields& fields, const uint8_t* uuid) {
  std::array<std::byte, 16> detach;
  std::memcpy(detach.data(), uuid, detach.size());
  fields.detach = detach;
}

Result<NamespaceObject> take_namespace(const kvs_attach_args& args) {
  Result<NamespaceFields> fields = take_fields(args.fields);
  if (!fields.ok()) return fields.status();
  Result<std::vector<std::byte>> identity = encode_identity(*fields);
  if (!identity.ok()) return identity.status();
  NamespaceObject space;
  space.identity = identity.take();
  space.id = namespace_id(space.identity);
  if (args.group != nullptr) {
    const auto* group = reinterpret_cast<const std::byte*>(args.group);
    space.group.assign(group, group + 16);
  }
  if (args.detach != 0 && args.group != nullptr) {
    set_detach(*fields, args.group);
    Result<std::vector<std::byte>> detached = encode_identity(*fields);
    if (!detached.ok()) return detached.status();
    space.id = namespace_id(*detached);
  }
  space.group_size = args.group_size;
  space.rank = args.rank;
  space.coordinate = {args.coordinate.tp, args.coordinate.pp, args.coordinate.cp,
                      args.coordinate.reserved};
  space.description_bytes_max = args.description_bytes_max;
  space.detach = args.detach != 0;
  return space;
}

}  // namespace

extern "C" {

kvs_status kvs_memory_create(kvs_client* client, uint64_t bytes, uint64_t timeout_ns,
                             kvs_memory* memory, kvs_region* region) {
  return with_client(client, [&](Client& c) -> Status {
    if (region == nullptr) return invalid("region is NULL");
    *region = 0;
    if (Status status = check_out("memory", memory); !status.ok()) return status;
    kvs_memory made{};
    const Status status = c.create_memory(bytes, timeout_ns, made, *region);
    if (*region != 0) give_struct(made, memory);
    return status;
  });
}

kvs_status kvs_region_register_fd(kvs_client* client, int fd, uint64_t offset, uint64_t bytes,
                                  void* base, uint64_t echo_offset, uint64_t timeout_ns,
                                  kvs_region* region) {
  return with_client(client, [&](Client& c) -> Status {
    if (region == nullptr) return invalid("region is NULL");
    *region = 0;
    return c.register_fd(fd, offset, bytes, base, echo_offset, timeout_ns, *region);
  });
}

kvs_status kvs_region_register_staged(kvs_client* client, void* base, uint64_t bytes,
                                      uint64_t timeout_ns, kvs_region* region) {
  return with_client(client, [&](Client& c) -> Status {
    if (region == nullptr) return invalid("region is NULL");
    *region = 0;
    return c.register_staged(base, bytes, timeout_ns, *region);
  });
}

kvs_status kvs_region_unregister(kvs_client* client, kvs_region region, uint64_t timeout_ns) {
  return with_client(client, [&](Client& c) { return c.unregister_region(region, timeout_ns); });
}

kvs_status kvs_layout_register(kvs_client* client, uint32_t blocks, const kvs_layout_run* runs,
                               size_t run_count, uint64_t timeout_ns, kvs_layout* layout) {
  return with_client(client, [&](Client& c) -> Status {
    if (layout == nullptr) return invalid("layout is NULL");
    *layout = 0;
    if (blocks == 0) return invalid("blocks of layout is 0");
    if (runs == nullptr || run_count == 0 || run_count > kLayoutRunsMax)
      return invalid("run_count " + std::to_string(run_count) + " of layout must be 1 to " +
                     std::to_string(kLayoutRunsMax));
    LayoutObject object;
    object.blocks = blocks;
    for (size_t r = 0; r < run_count; ++r)
      object.runs.push_back(
          {runs[r].region, runs[r].base, runs[r].block_stride, runs[r].run_length});
    return c.register_layout(std::move(object), timeout_ns, *layout);
  });
}

kvs_status kvs_layout_unregister(kvs_client* client, kvs_layout layout, uint64_t timeout_ns) {
  return with_client(client, [&](Client& c) { return c.unregister_layout(layout, timeout_ns); });
}

kvs_status kvs_fence_create(kvs_client* client, kvs_fence* fence) {
  return with_client(client, [&](Client& c) -> Status {
    if (fence == nullptr) return invalid("fence is NULL");
    *fence = 0;
    return c.create_fence(*fence);
  });
}

kvs_status kvs_fence_signal(kvs_client* client, kvs_fence fence, uint64_t value) {
  return with_client(client, [&](Client& c) { return c.signal_fence(fence, value); });
}

kvs_status kvs_fence_destroy(kvs_client* client, kvs_fence fence) {
  return with_client(client, [&](Client& c) { return c.destroy_fence(fence); });
}

kvs_status kvs_identity_encode(const kvs_namespace_fields* fields, const uint8_t* detach, void* out,
                               size_t capacity, size_t* bytes) {
  return guarded([&]() -> Status {
    Result<NamespaceFields> taken = take_fields(fields);
    if (!taken.ok()) return taken.status();
    if (detach != nullptr) set_detach(*taken, detach);
    return give_bytes(encode_identity(*taken), out, capacity, bytes);
  });
}

kvs_status kvs_namespace_id(const void* identity, size_t identity_bytes, uint8_t id[16]) {
  return guarded([&]() -> Status {
    if (identity == nullptr || id == nullptr) return invalid("identity or id is NULL");
    const Bytes bytes(static_cast<const std::byte*>(identity), identity_bytes);
    if (Result<NamespaceFields> fields = decode_identity(bytes); !fields.ok())
      return fields.status();
    const Hash128 hash = namespace_id(bytes);
    std::memcpy(id, &hash, 16);
    return {};
  });
}

kvs_status kvs_attach(kvs_client* client, const kvs_attach_args* args, kvs_namespace* ns) {
  return with_client(client, [&](Client& c) -> Status {
    if (ns == nullptr) return invalid("ns is NULL");
    *ns = 0;
    kvs_attach_args taken{};
    if (Status status = take_struct("args", args, taken); !status.ok()) return status;
    Result<NamespaceObject> space = take_namespace(taken);
    if (!space.ok()) return space.status();
    return c.attach(space.take(), taken.timeout_ns, *ns);
  });
}

kvs_status kvs_detach(kvs_client* client, kvs_namespace ns) {
  return with_client(client, [&](Client& c) { return c.detach(ns); });
}

kvs_status kvs_namespace_get(kvs_client* client, kvs_namespace ns, uint8_t id[16],
                             uint64_t* generation) {
  return with_client(client, [&](Client& c) -> Status {
    if (id == nullptr || generation == nullptr) return invalid("id or generation is NULL");
    return c.namespace_facts(ns, id, *generation);
  });
}

kvs_status kvs_description_encode(const kvs_description* description, void* out, size_t capacity,
                                  size_t* bytes) {
  return guarded([&]() -> Status {
    kvs_description taken{};
    if (Status status = take_struct("description", description, taken); !status.ok()) return status;
    return give_bytes(encode_description(taken), out, capacity, bytes);
  });
}

}  // extern "C"
