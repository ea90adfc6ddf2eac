// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/capacity.h"

#include <nlohmann/json.hpp>

#include "clients/cpp/kvsidecar.hpp"

namespace kvsidecar {
namespace {

constexpr uint64_t kTimeoutNs = 5'000'000'000;
constexpr uint64_t kSlotStep = 4096;  // a slot is the page's bytes rounded up to it

}  // namespace

Result<Capacity> parse_capacity(std::string_view status_json, uint64_t page_bytes) {
  const auto json = nlohmann::json::parse(status_json, nullptr, false);
  const auto pool = nlohmann::json::json_pointer("/host_pool/bytes");
  const auto store = nlohmann::json::json_pointer("/store_capacity_bytes");
  if (!json.is_object() || !json.contains(pool) || !json[pool].is_number_unsigned())
    return invalid("the daemon's status has no host_pool.bytes");
  const uint64_t slot_bytes = (page_bytes + kSlotStep - 1) / kSlotStep * kSlotStep;
  Capacity capacity;
  capacity.pool_pages = json[pool].get<uint64_t>() / slot_bytes;
  if (json.contains(store) && json[store].is_number_unsigned())
    capacity.store_pages = json[store].get<uint64_t>() / slot_bytes;
  return capacity;
}

Result<Capacity> read_capacity(const std::string& socket, uint64_t page_bytes) {
  kvs_options options{};
  options.socket_path = socket.empty() ? nullptr : socket.c_str();
  options.name = "replay";
  auto client = client::Client::open(options);
  if (!client) return Status(Code::kUnavailable, client.outcome().text());
  auto stat = client->begin(
      [](kvs_client* c, kvs_op* op) { return kvs_stat(c, KVS_STAT_STATUS, kTimeoutNs, op); });
  const client::Outcome outcome = stat ? stat->wait() : stat.outcome();
  if (!outcome) return Status(Code::kUnavailable, outcome.text());
  return parse_capacity(stat->text(), page_bytes);
}

}  // namespace kvsidecar
