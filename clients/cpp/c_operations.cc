// SPDX-License-Identifier: Apache-2.0
// C ABI: operations and their results.
#include "clients/cpp/c_boundary.h"

using namespace kvsidecar;
using namespace kvsidecar::clientlib;

namespace {

template <typename Call>
kvs_status begin(kvs_client* client, kvs_op* op, Call&& call) {
  return with_client(client, [&](Client& c) -> Status {
    if (op == nullptr) return invalid("op is NULL");
    *op = 0;
    return call(c, *op);
  });
}

kvs_status transfer(kvs_client* client, RecordType type, const kvs_transfer_args* args,
                    kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) -> Status {
    kvs_transfer_args taken{};
    if (Status status = take_struct("args", args, taken); !status.ok()) return status;
    return c.transfer(type, taken, id);
  });
}

}  // namespace

extern "C" {

kvs_status kvs_lookup(kvs_client* client, const kvs_lookup_args* args, kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) -> Status {
    kvs_lookup_args taken{};
    if (Status status = take_struct("args", args, taken); !status.ok()) return status;
    return c.lookup(taken, id);
  });
}

kvs_status kvs_put(kvs_client* client, const kvs_transfer_args* args, kvs_op* op) {
  return transfer(client, RecordType::kPut, args, op);
}

kvs_status kvs_get(kvs_client* client, const kvs_transfer_args* args, kvs_op* op) {
  return transfer(client, RecordType::kGet, args, op);
}

kvs_status kvs_release(kvs_client* client, uint64_t lease, uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op,
               [&](Client& c, uint64_t& id) { return c.release(lease, timeout_ns, id); });
}

kvs_status kvs_noop(kvs_client* client, uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) { return c.noop(timeout_ns, id); });
}

kvs_status kvs_delete(kvs_client* client, kvs_namespace ns, const kvs_keys* keys,
                      uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) -> Status {
    if (keys == nullptr) return invalid("keys is NULL");
    return c.remove(ns, *keys, timeout_ns, id);
  });
}

kvs_status kvs_clear(kvs_client* client, kvs_namespace ns, uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op,
               [&](Client& c, uint64_t& id) { return c.clear(ns, nullptr, timeout_ns, id); });
}

kvs_status kvs_clear_id(kvs_client* client, const uint8_t namespace_id[16], uint64_t timeout_ns,
                        kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) -> Status {
    if (namespace_id == nullptr) return invalid("namespace_id is NULL");
    return c.clear(0, namespace_id, timeout_ns, id);
  });
}

kvs_status kvs_stat(kvs_client* client, uint32_t what, uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) { return c.stat(what, timeout_ns, id); });
}

kvs_status kvs_why(kvs_client* client, const uint8_t* namespace_id, const void* key,
                   size_t key_bytes, uint64_t timeout_ns, kvs_op* op) {
  return begin(client, op, [&](Client& c, uint64_t& id) -> Status {
    if (key == nullptr) return invalid("key is NULL");
    return c.why(namespace_id, Bytes(static_cast<const std::byte*>(key), key_bytes), timeout_ns,
                 id);
  });
}

size_t kvs_poll(kvs_client* client, kvs_event* events, size_t capacity) {
  size_t count = 0;
  (void)with_client(client, [&](Client& c) -> Status {
    if (events == nullptr && capacity > 0) return invalid("events is NULL");
    count = c.poll(events, capacity);
    return {};
  });
  return count;
}

kvs_status kvs_wait(kvs_client* client, kvs_op op, uint64_t timeout_ns) {
  return kvs_wait_all(client, &op, 1, timeout_ns);
}

kvs_status kvs_wait_all(kvs_client* client, const kvs_op* ops, size_t count, uint64_t timeout_ns) {
  return with_client(client, [&](Client& c) -> Status {
    if (ops == nullptr && count > 0) return invalid("ops is NULL");
    return c.wait(std::span(ops, count), timeout_ns);
  });
}

kvs_status kvs_result_get(kvs_client* client, kvs_op op, kvs_result* result) {
  return with_client(client, [&](Client& c) -> Status {
    if (Status status = check_out("result", result); !status.ok()) return status;
    kvs_result taken{};
    const Status status = c.result(op, taken);
    if (status.ok()) give_struct(taken, result);
    return status;
  });
}

kvs_status kvs_progress(kvs_client* client, kvs_op op, uint64_t* runs) {
  return with_client(client, [&](Client& c) -> Status {
    if (runs == nullptr) return invalid("runs is NULL");
    *runs = 0;
    return c.progress(op, *runs);
  });
}

kvs_status kvs_cancel(kvs_client* client, kvs_op op, uint8_t* free_items) {
  return with_client(client, [&](Client& c) { return c.cancel(op, free_items); });
}

kvs_status kvs_revoke(kvs_client* client, kvs_op op, const uint32_t* indices, size_t count,
                      uint8_t* free_items) {
  return with_client(client, [&](Client& c) -> Status {
    if (indices == nullptr && count > 0) return invalid("indices is NULL");
    return c.revoke(op, std::span(indices, count), free_items);
  });
}

kvs_status kvs_op_free(kvs_client* client, kvs_op op) {
  return with_client(client, [&](Client& c) { return c.free_op(op); });
}

}  // extern "C"
