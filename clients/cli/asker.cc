// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/asker.h"

#include <algorithm>

namespace kvsidecar {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status status_of(const client::Outcome& outcome) {
  return {static_cast<Code>(outcome.status()), outcome.text()};
}

}  // namespace

Result<std::vector<uint8_t>> bytes_of_hex(const std::string& what, const std::string& hex) {
  if (hex.empty() || hex.size() % 2 != 0)
    return invalid(what + " has " + std::to_string(hex.size()) +
                   " hex digits; give two for each byte");
  std::vector<uint8_t> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return invalid(what + " has '" + hex.substr(2 * i, 2) + "' in it; give hex digits only");
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return bytes;
}

Result<NamespaceId> namespace_of_hex(const std::string& hex) {
  auto bytes = bytes_of_hex("the namespace", hex);
  if (!bytes) return bytes.status();
  NamespaceId id;
  if (bytes->size() != id.size())
    return invalid("the namespace has " + std::to_string(hex.size()) +
                   " hex digits; an id has 32, as `kvsidecar ls` shows them");
  std::copy(bytes->begin(), bytes->end(), id.begin());
  return id;
}

std::string hex_of(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

Result<Asker> Asker::open(const Target& target, bool keep_trying) {
  const uint64_t timeout_ns = uint64_t{target.timeout_s} * 1'000'000'000;
  kvs_options options{};
  options.socket_path = target.socket.empty() ? nullptr : target.socket.c_str();
  options.name = "kvsidecar";
  options.connect_timeout_ns = timeout_ns;
  options.no_reconnect = keep_trying ? 0 : 1;
  auto client = client::Client::open(options);
  if (!client) return status_of(client.outcome());
  return Asker(std::move(*client), timeout_ns);
}

Result<std::string> Asker::text_of(client::Expected<client::Op> begun) {
  const client::Outcome outcome = begun ? begun->wait() : begun.outcome();
  if (!outcome) return status_of(outcome);
  return std::string(begun->text());
}

Result<std::string> Asker::stat(uint32_t what) {
  return text_of(
      client_.begin([&](kvs_client* c, kvs_op* op) { return kvs_stat(c, what, timeout_ns_, op); }));
}

Result<std::string> Asker::why(const std::vector<uint8_t>& key,
                               const std::optional<NamespaceId>& space) {
  return text_of(client_.begin([&](kvs_client* c, kvs_op* op) {
    return kvs_why(c, space ? space->data() : nullptr, key.data(), key.size(), timeout_ns_, op);
  }));
}

Result<uint64_t> Asker::clear(const NamespaceId& space) {
  auto begun = client_.begin(
      [&](kvs_client* c, kvs_op* op) { return kvs_clear_id(c, space.data(), timeout_ns_, op); });
  const client::Outcome outcome = begun ? begun->wait() : begun.outcome();
  if (!outcome) return status_of(outcome);
  return uint64_t{begun->result().generation};
}

int Asker::daemon_pid() {
  kvs_connection connection{};
  connection.struct_size = sizeof connection;
  return kvs_connection_get(client_.c(), &connection) == KVS_OK ? connection.daemon_pid : 0;
}

}  // namespace kvsidecar
