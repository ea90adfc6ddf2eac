// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/keys.h"

#include "ipc/os.h"

namespace kvsidecar::usrbio {
namespace {

constexpr size_t kTextBytes = 36;

constexpr bool hyphen_at(size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string binary(uint64_t value) {
  std::string digits;
  do digits.insert(digits.begin(), static_cast<char>('0' + (value & 1)));
  while ((value >>= 1) != 0);
  return digits;
}

}  // namespace

MemoryId make_id() {
  MemoryId id;
  random_bytes(std::as_writable_bytes(std::span(id)));
  id[6] = static_cast<uint8_t>((id[6] & 0x0f) | 0x40);  // version 4, variant 1
  id[8] = static_cast<uint8_t>((id[8] & 0x3f) | 0x80);
  return id;
}

std::string id_text(const MemoryId& id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(kTextBytes);
  for (const uint8_t byte : id) {
    if (hyphen_at(text.size())) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<MemoryId> parse_id(std::string_view text) {
  if (text.size() != kTextBytes) return std::nullopt;
  MemoryId id{};
  size_t digits = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (hyphen_at(at)) {
      if (text[at] != '-') return std::nullopt;
      continue;
    }
    const int value = hex_value(text[at]);
    if (value < 0) return std::nullopt;
    id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | value);
    ++digits;
  }
  return id;
}

std::string memory_key(const MemoryId& id, uint64_t block_bytes) {
  return id_text(id) + (block_bytes > 0 ? ".b" + std::to_string(block_bytes) : "");
}

std::string ring_key(const MemoryId& id, const RingTerms& terms) {
  std::string key = id_text(id) + (terms.for_read ? ".r" : ".w") + std::to_string(terms.io_depth);
  if (terms.priority != 0) key += terms.priority < 0 ? ".ph" : ".pl";
  key += ".t" + std::to_string(terms.timeout_ms);
  if (terms.flags != 0) key += ".f" + binary(terms.flags);
  return key;
}

}  // namespace kvsidecar::usrbio
