// SPDX-License-Identifier: Apache-2.0
// What the client tests share: a socket path of their own, an attached client over one block
// layout, keys and bytes that follow from numbers.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "clients/cpp/kvsidecar.hpp"
#include "tests/unit/clients/peer.h"

namespace kvsidecar::testing {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint32_t kKeyBytes = 32;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/kvsidecar-clients-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() { ::rmdir(path_.c_str()); }
  std::string socket() const { return path_ + "/socket"; }

 private:
  std::string path_;
};

inline std::vector<std::byte> make_keys(uint32_t first, uint32_t count) {
  std::vector<std::byte> keys(size_t{count} * kKeyBytes);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = first + i;
    std::memcpy(keys.data() + size_t{i} * kKeyBytes, &number, sizeof number);
  }
  return keys;
}

inline std::vector<uint32_t> numbers(uint32_t first, uint32_t count) {
  std::vector<uint32_t> out(count);
  for (uint32_t i = 0; i < count; ++i) out[i] = first + i;
  return out;
}

inline kvs_namespace_fields fields(const kvs_part& part) {
  kvs_namespace_fields out{};
  out.struct_size = sizeof out;
  out.model = "test/model";
  out.revision = "r1";
  out.dtype = "bf16";
  out.quantization = "none";
  out.layout = "blocks";
  out.pool = "kv";
  out.draft_model = "none";
  out.tokens_per_page = 16;
  out.tp_size = out.pp_size = out.cp_size = out.slices = 1;
  out.parts = &part;
  out.part_count = 1;
  return out;
}

// A client with `blocks` blocks of part_bytes, half of them to put from, half to get into.
struct Engine {
  static constexpr uint64_t kPartBytes = 4096;

  Engine(const std::string& socket, uint32_t blocks, bool staged = false,
         void (*change)(kvs_options&) = nullptr)
      : part{{0, 0, 0, 0}, kPartBytes} {
    kvs_options options{};
    options.socket_path = socket.c_str();
    options.default_timeout_ns = 20 * kSecond;
    if (change != nullptr) change(options);
    auto opened = client::Client::open(options);
    EXPECT_TRUE(opened.ok()) << opened.outcome().text();
    if (!opened.ok()) return;
    client.emplace(std::move(*opened));
    const uint64_t bytes = blocks * kPartBytes;
    if (staged) {
      own.resize(bytes);
      base = own.data();
      EXPECT_EQ(KVS_OK, kvs_region_register_staged(client->c(), base, bytes, 0, &region))
          << kvs_last_error();
    } else {
      kvs_memory memory{};
      memory.struct_size = sizeof memory;
      EXPECT_EQ(KVS_OK, kvs_memory_create(client->c(), bytes, 0, &memory, &region))
          << kvs_last_error();
      base = static_cast<std::byte*>(memory.base);
    }
    auto attached = client->attach(fields(part));
    EXPECT_TRUE(attached.ok()) << attached.outcome().text();
    ns = attached.ok() ? *attached : 0;
    // Two runs a block, so that order matters.
    const kvs_layout_run runs[] = {{region, 0, kPartBytes, kPartBytes / 2},
                                   {region, kPartBytes / 2, kPartBytes, kPartBytes / 2}};
    auto made = client->register_layout(blocks, runs);
    EXPECT_TRUE(made.ok()) << made.outcome().text();
    layout = made.ok() ? *made : 0;
  }

  void fill(uint32_t block, uint32_t number) {
    for (uint64_t i = 0; i < kPartBytes; i += 4) {
      const uint32_t word = number * 2654435761u + static_cast<uint32_t>(i);
      std::memcpy(base + block * kPartBytes + i, &word, sizeof word);
    }
  }
  bool holds(uint32_t block, uint32_t number) const {
    for (uint64_t i = 0; i < kPartBytes; i += 4) {
      uint32_t word = 0;
      std::memcpy(&word, base + block * kPartBytes + i, sizeof word);
      if (word != number * 2654435761u + static_cast<uint32_t>(i)) return false;
    }
    return true;
  }
  client::Transfer transfer(const std::vector<std::byte>& keys,
                            const std::vector<uint32_t>& blocks) const {
    return {
        .ns = ns, .keys = client::keys(keys, kKeyBytes), .items = client::blocks(layout, blocks)};
  }

  kvs_part part;
  std::optional<client::Client> client;
  std::vector<std::byte> own;
  std::byte* base = nullptr;
  kvs_region region = 0;
  kvs_namespace ns = 0;
  kvs_layout layout = 0;
};

}  // namespace kvsidecar::testing
