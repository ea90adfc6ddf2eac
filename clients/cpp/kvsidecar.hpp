// SPDX-License-Identifier: Apache-2.0
// kvsidecar client, C++20 API: a small header-only layer over kvsidecar.h.
//
//   auto client = Client::open({});
//   auto memory = client->create_memory(blocks * part_bytes);
//   auto ns = client->attach(fields);                             // kvs_namespace_fields
//   auto layout = client->register_layout(blocks, {{{memory->region(), 0, part_bytes,
//   part_bytes}}}); auto put = client->put({.ns = *ns, .keys = k, .items = client::blocks(*layout,
//   numbers)}); put->wait(); auto found = client->lookup({.keys = k, .pools = {{*ns}}});
//   found->wait();                                                // found->longest() pages
//   auto get = client->get({.ns = *ns, .keys = k, .items = client::blocks(*layout, others)});
//   get->wait();                                                  // get->items(): a status each
//
// Ids of regions, layouts, namespaces and fences are plain values of the C ABI and end with the
// Client. Creating calls give an id also when no daemon answers at the moment (see
// kvsidecar_memory.h); ask `connected()`. Threads: as in the C ABI, any; a Memory or Op object
// belongs to one thread at a time.
#pragma once
#include <memory>

#include "kvsidecar_op.hpp"
#include "kvsidecar_requests.hpp"

namespace kvsidecar::client {

class Client {
 public:
  // kvs_open; struct_size is filled in.
  static Expected<Client> open(kvs_options options) {
    options.struct_size = sizeof options;
    kvs_client* client = nullptr;
    if (const kvs_status opened = kvs_open(&options, &client); opened != KVS_OK)
      return Outcome(opened);
    return Client(client);
  }
  kvs_client* c() const { return client_.get(); }
  bool connected() const { return kvs_connected(c()) != 0; }
  int event_fd() const { return kvs_event_fd(c()); }

  Expected<Memory> create_memory(uint64_t bytes, uint64_t timeout_ns = 0) {
    kvs_memory memory{};
    memory.struct_size = sizeof memory;
    kvs_region region = 0;
    const kvs_status made = kvs_memory_create(c(), bytes, timeout_ns, &memory, &region);
    if (region == 0) return Outcome(made);
    return Memory(c(), region, memory);
  }
  Expected<kvs_namespace> attach(kvs_namespace_fields fields, kvs_attach_args args = {}) {
    fields.struct_size = sizeof fields;
    args.struct_size = sizeof args;
    args.fields = &fields;
    kvs_namespace ns = 0;
    const kvs_status status = kvs_attach(c(), &args, &ns);
    return made(status, ns);
  }
  Expected<kvs_layout> register_layout(uint32_t blocks, std::span<const kvs_layout_run> runs,
                                       uint64_t timeout_ns = 0) {
    kvs_layout layout = 0;
    const kvs_status status =
        kvs_layout_register(c(), blocks, runs.data(), runs.size(), timeout_ns, &layout);
    return made(status, layout);
  }

  Expected<Op> lookup(const Lookup& l) {
    const kvs_lookup_args args{sizeof args, l.keys,     l.pools.begin(), l.pools.size(),
                               l.ticket,    l.lease_ms, l.prefetch,      l.timeout_ns};
    kvs_op op = 0;
    const kvs_status status = kvs_lookup(c(), &args, &op);
    return begun(status, op);
  }
  Expected<Op> put(const Transfer& transfer) {
    const kvs_transfer_args args = transfer.args();
    kvs_op op = 0;
    const kvs_status status = kvs_put(c(), &args, &op);
    return begun(status, op);
  }
  Expected<Op> get(const Transfer& transfer) {
    const kvs_transfer_args args = transfer.args();
    kvs_op op = 0;
    const kvs_status status = kvs_get(c(), &args, &op);
    return begun(status, op);
  }
  // For the calls of kvsidecar_ops.h that have no method here: Op of what `call` has begun.
  template <typename Call>
  Expected<Op> begin(Call&& call) {
    kvs_op op = 0;
    const kvs_status status = call(c(), &op);
    return begun(status, op);
  }

 private:
  struct Close {
    void operator()(kvs_client* client) const { (void)kvs_close(client, 0); }
  };
  explicit Client(kvs_client* client) : client_(client) {}
  Expected<Op> begun(kvs_status status, kvs_op op) {
    if (status != KVS_OK) return Outcome(status);
    return Op(c(), op);
  }
  static Expected<uint64_t> made(kvs_status status, uint64_t id) {
    if (id == 0) return Outcome(status);
    return id;
  }
  std::unique_ptr<kvs_client, Close> client_;
};

}  // namespace kvsidecar::client
