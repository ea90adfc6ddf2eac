// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/key.h"

#include <cerrno>
#include <charconv>

namespace kvsidecar::fake3fs {
namespace {

constexpr size_t kUuidLetters = 36;

template <typename T>
bool whole(std::string_view text, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_uuid(std::string_view text, Id& id) {
  if (text.size() != kUuidLetters) return false;
  size_t byte = 0;
  for (size_t at = 0; at < text.size();) {
    if (at == 8 || at == 13 || at == 18 || at == 23) {
      if (text[at++] != '-') return false;
      continue;
    }
    if (!whole(text.substr(at, 2), id[byte++], 16)) return false;
    at += 2;
  }
  return true;
}

// What the parts said of a ring before it is known whether it is one.
struct Parts {
  RingOptions options;
  bool direction = false, others = false, bad = false;
};

bool set_priority(std::string_view level, RingOptions& options) {
  if (level == "h") options.priority = Priority::kHigh;
  if (level == "l") options.priority = Priority::kLow;
  if (level.empty() || level == "n") options.priority = Priority::kNormal;
  return level.empty() || level == "h" || level == "l" || level == "n";
}

void read_part(std::string_view part, Key& key, Parts& parts) {
  const std::string_view value = part.substr(1);
  switch (part[0]) {
    case 'b':
      if (!whole(value, key.block_bytes) || key.block_bytes == 0) parts.bad = true;
      break;
    case 'r':
    case 'w':
      parts.direction = true;
      parts.options.for_read = part[0] == 'r';
      if (!whole(value, parts.options.io_depth)) parts.bad = true;
      break;
    case 't':
      parts.others = true;
      if (!whole(value, parts.options.timeout_ms)) parts.bad = true;
      break;
    case 'f':
      parts.others = true;
      if (!whole(value, parts.options.flags, 2)) parts.bad = true;
      break;
    case 'p':
      parts.others = true;
      if (!set_priority(value, parts.options)) parts.bad = true;
      break;
    default:
      break;
  }
}

}  // namespace

int parse_key(std::string_view text, Key& key) {
  if (!parse_uuid(text.substr(0, text.find('.')), key.id)) return -EIO;
  Parts parts;
  for (size_t dot = text.find('.'); dot != std::string_view::npos;) {
    const size_t begin = dot + 1;
    dot = text.find('.', begin);
    const std::string_view part = text.substr(begin, dot == text.npos ? dot : dot - begin);
    if (!part.empty()) read_part(part, key, parts);
  }
  // A direction alone takes the real daemon down; every client says at least the timeout.
  if (parts.bad || parts.direction != parts.others) return -EINVAL;
  if (parts.direction) key.ring = parts.options;
  return 0;
}

}  // namespace kvsidecar::fake3fs
