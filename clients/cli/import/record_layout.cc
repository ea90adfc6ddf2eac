// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/record_layout.h"

#include <charconv>
#include <string_view>

namespace kvsidecar {
namespace {

constexpr std::string_view kMha = "MHATokenToKVPoolHost", kMla = "MLATokenToKVPoolHost";
constexpr std::string_view kSegments = "segments ";
constexpr size_t kSegmentsMax = 4096;

// What the plug-in writes: ["flat, "]order, class[, tag][, layers …, segments COUNTxBYTES …].
struct Words {
  bool flat = false;
  std::string_view order, kind;
  std::vector<uint64_t> segments;  // bytes of each, in the part's order
};

bool read_number(std::string_view& text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool read_segments(std::string_view text, std::vector<uint64_t>& segments) {
  while (!text.empty()) {
    uint64_t count = 0, bytes = 0;
    if (!read_number(text, count) || text.empty() || text[0] != 'x') return false;
    text.remove_prefix(1);
    if (!read_number(text, bytes) || bytes == 0 || count > kSegmentsMax - segments.size())
      return false;
    segments.insert(segments.end(), count, bytes);
    if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  }
  return !segments.empty();
}

bool read_words(std::string_view layout, Words& words) {
  std::vector<std::string_view> list;
  while (!layout.empty()) {
    const size_t comma = layout.find(", ");
    list.push_back(layout.substr(0, comma));
    layout.remove_prefix(comma == std::string_view::npos ? layout.size() : comma + 2);
  }
  words.flat = !list.empty() && list[0] == "flat";
  const size_t first = words.flat ? 1 : 0;
  if (list.size() < first + 2) return false;
  words.order = list[first];
  words.kind = list[first + 1];
  if (words.flat) return true;
  if (list.back().substr(0, kSegments.size()) != kSegments) return false;
  return read_segments(list.back().substr(kSegments.size()), words.segments);
}

bool all_equal(const std::vector<uint64_t>& segments) {
  for (const uint64_t bytes : segments)
    if (bytes != segments[0]) return false;
  return true;
}

RecordLayout whole(uint64_t part_bytes) { return {1, part_bytes, {{0, 0, 0, part_bytes}}}; }

RecordLayout halves(uint64_t part_bytes) {
  const uint64_t half = part_bytes / 2;
  return {2, half, {{0, 0, 0, half}, {1, 0, half, half}}};
}

// The record: K of all layers, then V of all layers. The part: K and V of each layer in turn.
RecordLayout dealt(uint64_t part_bytes, size_t segments) {
  RecordLayout layout{1, part_bytes, {}};
  const uint64_t bytes = part_bytes / segments;
  for (uint64_t i = 0; i < segments; ++i) {
    const uint64_t place = i % 2 * (segments / 2) + i / 2;
    layout.pieces.push_back({0, place * bytes, i * bytes, bytes});
  }
  return layout;
}

std::optional<RecordLayout> kv_layout(const Words& words, uint64_t part_bytes) {
  const size_t segments = words.segments.size();
  const bool mha = words.kind == kMha, mla = words.kind == kMla;
  if (words.order == "page_first" || words.order == "page_first_direct") {
    if (mha && part_bytes % 2 == 0 && (words.flat || (segments == 2 && all_equal(words.segments))))
      return halves(part_bytes);
    if (mla && (words.flat || segments == 1)) return whole(part_bytes);
  }
  if (words.order == "layer_first") {
    if (mla || (mha && words.flat)) return whole(part_bytes);
    if (mha && segments % 2 == 0 && all_equal(words.segments)) return dealt(part_bytes, segments);
  }
  return std::nullopt;
}

}  // namespace

Result<RecordLayout> record_layout_of(const NamespaceFields& fields) {
  const std::string what = "layout \"" + fields.layout + "\" of pool " + fields.pool;
  Words words;
  if (!read_words(fields.layout, words))
    return invalid(what +
                   " isn't one that HiCache makes; name a namespace that an "
                   "engine with kvsidecar.sglang.HiCache has attached to");
  const uint64_t part_bytes = fields.parts[0].bytes;
  uint64_t sum = 0;
  for (const uint64_t bytes : words.segments) sum += bytes;
  for (const PartSpec& part : fields.parts)
    if (part.bytes != part_bytes || (!words.flat && sum != part.bytes))
      return invalid(what + " says " + std::to_string(sum) + " bytes, a part has " +
                     std::to_string(part.bytes) + "; such a namespace can't be imported into");
  if (fields.pool != "kv") {
    // HF3FS sizes the records of a side pool with K alone.
    if (words.kind == kMha)
      return invalid(what +
                     " is K and V of a side pool, which HF3FS could never store; leave the "
                     "namespace out");
    return whole(part_bytes);
  }
  if (const auto layout = kv_layout(words, part_bytes)) return *layout;
  return invalid(what +
                 " is none that HF3FS's records can be turned into; page_first, "
                 "page_first_direct and layer_first of MHA and MLA can be");
}

}  // namespace kvsidecar
