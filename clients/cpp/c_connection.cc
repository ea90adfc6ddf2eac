// SPDX-License-Identifier: Apache-2.0
// C ABI: versions, statuses, the connection.
#include <cstdlib>

#include "clients/cpp/c_boundary.h"

using namespace kvsidecar;
using namespace kvsidecar::clientlib;

namespace {

constexpr uint64_t kMicrosecond = 1'000, kMillisecond = 1'000'000;

uint64_t or_default(uint64_t value, uint64_t standard) { return value == 0 ? standard : value; }

std::string program_name() {
  return program_invocation_short_name != nullptr ? program_invocation_short_name : "client";
}

Options to_options(const kvs_options& in) {
  Options out;
  const char* environment = std::getenv("KVSIDECAR_SOCKET");
  out.socket_path = in.socket_path != nullptr ? in.socket_path
                    : environment != nullptr  ? environment
                                              : "/run/kvsidecar/kvsidecar.sock";
  out.name = in.name != nullptr ? in.name : program_name();
  out.connect_timeout_ns = or_default(in.connect_timeout_ns, 2000 * kMillisecond);
  out.default_timeout_ns = or_default(in.default_timeout_ns, 1000 * kMillisecond);
  out.spin_while_it_pays = in.spin_ns == 0;
  out.spin_ns = or_default(in.spin_ns, 100 * kMicrosecond);
  if (in.spin_ns == UINT64_MAX) out.spin_ns = 0;
  out.reconnect_min_ns = or_default(in.reconnect_min_ns, 10 * kMillisecond);
  out.reconnect_max_ns = or_default(in.reconnect_max_ns, 1000 * kMillisecond);
  out.reconnect_max_ns = std::max(out.reconnect_max_ns, out.reconnect_min_ns);
  out.staging_bytes = or_default(in.staging_bytes, 64ull << 20);
  out.operations_max = in.operations_max == 0 ? 4096 : in.operations_max;
  out.allow_disconnected = in.allow_disconnected != 0;
  out.reconnect = in.no_reconnect == 0;
  out.log = in.log;
  out.log_context = in.log_context;
  return out;
}

}  // namespace

extern "C" {

uint32_t kvs_version(void) { return (KVS_ABI_MAJOR << 16) | KVS_ABI_MINOR; }

const char* kvs_status_name(kvs_status status) {
  if (status < 0 || status >= kCodesMax) return "?";
  return code_name(static_cast<Code>(status)).data();
}

const char* kvs_last_error(void) { return last_error(); }

kvs_status kvs_open(const kvs_options* options, kvs_client** client) {
  return guarded([&]() -> Status {
    if (client == nullptr) return invalid("client is NULL");
    *client = nullptr;
    kvs_options taken{};
    if (options != nullptr)
      if (Status status = take_struct("options", options, taken); !status.ok()) return status;
    auto opened = std::make_unique<kvs_client>(to_options(taken));
    if (Status status = opened->client.open(); !status.ok()) {
      (void)opened->client.close(0);
      return status;
    }
    *client = opened.release();
    return {};
  });
}

kvs_status kvs_close(kvs_client* client, uint64_t wait_ns) {
  if (client == nullptr) return KVS_OK;
  return with_client(client, [&](Client& c) -> Status {
    if (!c.close(wait_ns == 0 ? 10'000 * kMillisecond : wait_ns))
      return {Code::kTimeout,
              "a get is still being copied: its blocks may be written until the daemon has died"};
    delete client;
    return {};
  });
}

int kvs_event_fd(kvs_client* client) {
  int fd = -1;
  (void)with_client(client, [&](Client& c) -> Status {
    fd = c.event_fd();
    return {};
  });
  return fd;
}

kvs_status kvs_connection_get(kvs_client* client, kvs_connection* connection) {
  return with_client(client, [&](Client& c) -> Status {
    if (Status status = check_out("connection", connection); !status.ok()) return status;
    kvs_connection facts{};
    c.connection(facts);
    give_struct(facts, connection);
    return {};
  });
}

int kvs_connected(kvs_client* client) {
  kvs_connection facts{};
  facts.struct_size = sizeof facts;
  return kvs_connection_get(client, &facts) == KVS_OK && facts.connected != 0 ? 1 : 0;
}

uint64_t kvs_epoch(kvs_client* client) {
  kvs_connection facts{};
  facts.struct_size = sizeof facts;
  return kvs_connection_get(client, &facts) == KVS_OK ? facts.epoch : 0;
}

kvs_status kvs_wait_connected(kvs_client* client, uint64_t timeout_ns) {
  return with_client(client, [&](Client& c) { return c.wait_connected(timeout_ns); });
}

}  // extern "C"
