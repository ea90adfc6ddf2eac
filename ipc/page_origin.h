// SPDX-License-Identifier: Apache-2.0
// Where a page came from, when it wasn't an engine that put it: entry 7 of its description (see
// kvs_description_encode). Such a page is an imported one. Pure; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace kvsidecar {

inline constexpr uint16_t kOriginTag = 7;
inline constexpr size_t kOriginBytesMax = 64;

// A description that says only that; more than kOriginBytesMax of the text is left out.
inline std::string origin_description(std::string_view origin) {
  origin = origin.substr(0, kOriginBytesMax);
  const auto bytes = static_cast<uint32_t>(origin.size());
  std::string out(sizeof kOriginTag + sizeof bytes, '\0');
  std::memcpy(out.data(), &kOriginTag, sizeof kOriginTag);
  std::memcpy(out.data() + sizeof kOriginTag, &bytes, sizeof bytes);
  return out.append(origin);
}

// Empty: it says none, or isn't a description.
inline std::string_view origin_of(std::span<const std::byte> description) {
  constexpr size_t kHead = sizeof(uint16_t) + sizeof(uint32_t);
  while (description.size() >= kHead) {
    uint16_t tag = 0;
    uint32_t bytes = 0;
    std::memcpy(&tag, description.data(), sizeof tag);
    std::memcpy(&bytes, description.data() + sizeof tag, sizeof bytes);
    description = description.subspan(kHead);
    if (bytes > description.size()) return {};
    if (tag == kOriginTag) return {reinterpret_cast<const char*>(description.data()), bytes};
    description = description.subspan(bytes);
  }
  return {};
}

}  // namespace kvsidecar
