// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/imported_page.h"

#include "clients/cli/import/target_namespace.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kTimeoutNs = 10'000'000'000;

}  // namespace

Status load_imported(const Target& target, const std::string& list, const std::string& hex,
                     const std::vector<uint8_t>& key) {
  const auto space = find_target(list, hex);
  if (!space) return space.status();
  kvs_options options{};
  options.socket_path = target.socket.empty() ? nullptr : target.socket.c_str();
  options.name = "why";
  options.default_timeout_ns = kTimeoutNs;
  options.no_reconnect = 1;
  auto client = client::Client::open(options);
  if (!client) return status_of(client.outcome());
  const auto ns = attach_target(*client, *space);
  if (!ns) return ns.status();
  const uint64_t bytes = space->fields.parts[0].bytes;
  auto memory = client->create_memory(bytes);
  if (!memory) return status_of(memory.outcome());
  const kvs_run run{memory->region(), 0, bytes};
  const uint32_t runs = 1;
  client::Transfer get;
  get.ns = *ns;
  get.keys = {key.data(), static_cast<uint32_t>(key.size()), 1};
  get.items.runs = &run;
  get.items.run_counts = &runs;
  auto op = client->get(get);
  return status_of(op ? op->wait() : op.outcome());
}

}  // namespace kvsidecar
