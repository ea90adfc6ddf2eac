// SPDX-License-Identifier: Apache-2.0
// Hash128 as text.
#include "ipc/identity.h"

namespace kvsidecar {

std::string to_hex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {hash.low, hash.high}) {
    for (unsigned i = 0; i < 8; ++i) {
      const auto byte = static_cast<uint8_t>(half >> (8 * i));
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  return text;
}

std::optional<Hash128> hash_from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Hash128 hash;
  for (unsigned i = 0; i < 32; ++i) {
    const char c = text[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint64_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    // Two digits a byte, the higher first; bytes from the lowest on.
    const unsigned shift = (i % 16 / 2) * 8 + (i % 2 == 0 ? 4 : 0);
    (i < 16 ? hash.low : hash.high) |= digit << shift;
  }
  return hash;
}

}  // namespace kvsidecar
