// SPDX-License-Identifier: Apache-2.0
// The edge of the C ABI: sized structs in and out, no exception past it, dead clients refused. Any
// thread.
#pragma once
#include <algorithm>
#include <cstring>
#include <new>

#include "clients/cpp/client.h"

struct kvs_client {
  explicit kvs_client(kvsidecar::clientlib::Options options) : client(std::move(options)) {}
  kvsidecar::clientlib::Client client;
};

namespace kvsidecar::clientlib {

// Copies a caller's struct of an older or newer size; what this library doesn't know must be zero.
template <typename T>
Status take_struct(const char* name, const T* from, T& out) {
  out = T{};
  if (from == nullptr) return invalid(std::string(name) + " is NULL");
  const size_t size = from->struct_size;
  if (size < sizeof(size_t) || size > 4096)
    return invalid(std::string(name) + ".struct_size is " + std::to_string(size) +
                   "; set it to sizeof of the struct");
  std::memcpy(&out, from, std::min(size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return invalid(std::string(name) + " is newer than this library and byte " +
                     std::to_string(i) + " is not zero; update libkvsidecar-client");
  return {};
}

// Writes as much of `value` as the caller's struct has room for.
template <typename T>
void give_struct(const T& value, T* to) {
  const size_t size = to->struct_size;
  std::memcpy(reinterpret_cast<char*>(to) + sizeof(size_t),
              reinterpret_cast<const char*>(&value) + sizeof(size_t),
              std::min(size, sizeof(T)) - sizeof(size_t));
}

template <typename T>
Status check_out(const char* name, const T* to) {
  if (to == nullptr) return invalid(std::string(name) + " is NULL");
  if (to->struct_size < sizeof(size_t))
    return invalid(std::string(name) + ".struct_size is 0; set it to sizeof of the struct");
  return {};
}

template <typename Call>
kvs_status guarded(Call&& call) {
  try {
    return told(call());
  } catch (const std::bad_alloc&) {
    return fail(Code::kInternal, "out of memory");
  } catch (const std::exception& error) {
    return fail(Code::kInternal, error.what());
  } catch (...) {
    return fail(Code::kInternal, "an unknown exception inside the library");
  }
}

template <typename Call>
kvs_status with_client(kvs_client* client, Call&& call) {
  return guarded([&]() -> Status {
    if (client == nullptr) return invalid("client is NULL");
    if (!client->client.alive())
      return {Code::kUnavailable,
              "this client was opened before fork(); open one in the child process"};
    return call(client->client);
  });
}

}  // namespace kvsidecar::clientlib
