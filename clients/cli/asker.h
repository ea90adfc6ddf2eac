// SPDX-License-Identifier: Apache-2.0
// Questions to the daemon, each waited for. One thread at a time. Answers are the daemon's JSON.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "clients/cpp/kvsidecar.hpp"
#include "ipc/result.h"

namespace kvsidecar {

using NamespaceId = std::array<uint8_t, 16>;

// What every command takes.
struct Target {
  std::string socket;  // --socket; empty: $KVSIDECAR_SOCKET, else the default
  bool json = false;   // --json
  uint32_t timeout_s = 5;
};

// Hex digits to bytes; an error names what is wrong with `what`.
Result<std::vector<uint8_t>> bytes_of_hex(const std::string& what, const std::string& hex);
Result<NamespaceId> namespace_of_hex(const std::string& hex);
std::string hex_of(const uint8_t* bytes, size_t count);

class Asker {
 public:
  // keep_trying: once connected, connects again whenever the daemon comes back.
  static Result<Asker> open(const Target& target, bool keep_trying = false);

  Result<std::string> stat(uint32_t what);  // KVS_STAT_…
  Result<std::string> why(const std::vector<uint8_t>& key, const std::optional<NamespaceId>& space);
  Result<uint64_t> clear(const NamespaceId& space);  // the new generation
  int daemon_pid();                                  // 0: not visible from here

 private:
  Asker(client::Client client, uint64_t timeout_ns)
      : client_(std::move(client)), timeout_ns_(timeout_ns) {}
  Result<std::string> text_of(client::Expected<client::Op> begun);

  client::Client client_;
  uint64_t timeout_ns_;
};

}  // namespace kvsidecar
