// SPDX-License-Identifier: Apache-2.0
#include "ipc/identity.h"

#include <algorithm>
#include <bit>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ipc/layout.h"

namespace kvsidecar {
namespace {

static_assert(std::endian::native == std::endian::little, "the encodings are little-endian");
static_assert(sizeof(Coordinate) == 8);

constexpr size_t kPoolNameBytesMax = 64;
constexpr size_t kPartEntryBytes = sizeof(Coordinate) + sizeof(uint64_t);

template <typename T>
void append_value(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append_text(std::vector<std::byte>& out, const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

void append_entry(std::vector<std::byte>& out, IdentityTag tag, Bytes value) {
  append_value(out, static_cast<uint16_t>(tag));
  append_value(out, static_cast<uint32_t>(value.size()));
  out.insert(out.end(), value.begin(), value.end());
}

void append_entry(std::vector<std::byte>& out, IdentityTag tag, const std::string& text) {
  append_entry(out, tag, Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

Status bad_field(const std::string& field, const std::string& value, const char* remedy) {
  return invalid("identity: " + field + " is " + value + "; " + remedy);
}

// Well-formed UTF-8 of RFC 3629 (no overlong forms, no surrogates, at most U+10FFFF), without NUL.
bool is_text(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead == 0) return false;
    const size_t more = lead < 0x80   ? 0
                        : lead < 0xc2 ? 4
                        : lead < 0xe0 ? 1
                        : lead < 0xf0 ? 2
                        : lead < 0xf5 ? 3
                                      : 4;
    if (more == 4 || i + more >= text.size()) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    const auto second = more > 0 ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

Status check_texts(const NamespaceFields& f) {
  const std::pair<const char*, const std::string*> required[] = {{"model", &f.model},
                                                                 {"revision", &f.revision},
                                                                 {"dtype", &f.dtype},
                                                                 {"layout", &f.layout},
                                                                 {"pool", &f.pool},
                                                                 {"quantization", &f.quantization},
                                                                 {"draft_model", &f.draft_model}};
  for (const auto& [name, text] : required) {
    if (text->empty()) {
      return bad_field(name, "missing or empty",
                       "name it (\"none\" where a quantization or draft model doesn't exist)");
    }
    if (!is_text(*text)) return bad_field(name, "not text", "give UTF-8 without NUL");
  }
  const std::pair<const char*, const std::optional<std::string>*> optional[] = {
      {"adapter", &f.adapter}, {"tenant_salt", &f.tenant_salt}, {"key_scheme", &f.key_scheme}};
  for (const auto& [name, text] : optional) {
    if (*text && !is_text(**text)) return bad_field(name, "not text", "give UTF-8 without NUL");
  }
  if (f.pool.size() > kPoolNameBytesMax) {
    return bad_field("pool", std::to_string(f.pool.size()) + " bytes long", "use at most 64 bytes");
  }
  for (const auto& [name, value] : f.extra) {
    if (name.empty() || name.size() > UINT16_MAX || !is_text(name)) {
      return bad_field("an extra field's name", "empty, longer than 65535 bytes or not text",
                       "give UTF-8 without NUL");
    }
    if (!is_text(value)) return bad_field(name, "not text", "give UTF-8 without NUL");
  }
  return {};
}

Status check_numbers(const NamespaceFields& f) {
  const std::pair<const char*, uint32_t> counts[] = {{"tokens_per_page", f.tokens_per_page},
                                                     {"tp_size", f.tp_size},
                                                     {"pp_size", f.pp_size},
                                                     {"cp_size", f.cp_size}};
  for (const auto& [name, value] : counts) {
    if (value == 0) return bad_field(name, "0", "it must be 1 or more");
  }
  if (f.slice >= f.slices) {
    return bad_field("slice",
                     std::to_string(f.slice) + " of " + std::to_string(f.slices) + " slices",
                     "slices count from 0 and a whole model is slice 0 of 1");
  }
  if (f.parts.empty() || f.parts.size() > kPartsMax) {
    return bad_field("parts", std::to_string(f.parts.size()) + " parts", "declare 1 to 256");
  }
  uint64_t sum = 0;
  std::vector<Coordinate> seen;
  for (const PartSpec& part : f.parts) {
    if (part.bytes == 0 || part.bytes > kPageBytesMax || (sum += part.bytes) > kPageBytesMax) {
      return bad_field("parts", "a part of " + std::to_string(part.bytes) + " bytes",
                       "a part has 1 byte or more and a page 1 GiB at most");
    }
    if (part.coordinate.reserved != 0) {
      return bad_field("parts", "a coordinate with a reserved number", "it must be 0");
    }
    seen.push_back(part.coordinate);
  }
  std::sort(seen.begin(), seen.end());
  if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end()) {
    return bad_field("parts",
                     "coordinate tp " + std::to_string(twice->tp) + " pp " +
                         std::to_string(twice->pp) + " cp " + std::to_string(twice->cp) + " twice",
                     "declare each part once");
  }
  return {};
}

// The values of the extra entries, in the order of the canonical form.
Result<std::vector<std::vector<std::byte>>> extra_values(const NamespaceFields& f) {
  std::vector<std::string_view> names;
  std::vector<std::vector<std::byte>> values;
  for (const auto& [name, value] : f.extra) {
    names.push_back(name);
    std::vector<std::byte>& out = values.emplace_back();
    append_value(out, static_cast<uint16_t>(name.size()));
    append_text(out, name);
    append_text(out, value);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return bad_field(std::string(*twice), "an extra field given twice", "give each name once");
  }
  std::sort(values.begin(), values.end());
  return values;
}

// Reads integers and text out of one entry's value; ok() turns false past its end.
class ValueReader {
 public:
  explicit ValueReader(Bytes bytes) : bytes_(bytes) {}
  template <typename T>
  T next() {
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  Bytes take(size_t count) {
    if (bytes_.size() < count) {
      ok_ = false;
      return {};
    }
    const Bytes taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::string text(size_t count) {
    const Bytes taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string rest() { return text(bytes_.size()); }
  size_t left() const { return bytes_.size(); }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  Bytes bytes_;
  bool ok_ = true;
};

// Puts one entry into its field; false when the value hasn't the tag's form or the tag is unknown.
bool read_entry(uint16_t tag, ValueReader in, NamespaceFields& f) {
  switch (static_cast<IdentityTag>(tag)) {
    case IdentityTag::kFormatVersion:
      return in.next<uint32_t>() == kIdentityFormat && in.finished();
    case IdentityTag::kModel:
      f.model = in.rest();
      return true;
    case IdentityTag::kRevision:
      f.revision = in.rest();
      return true;
    case IdentityTag::kAdapter:
      f.adapter = in.rest();
      return true;
    case IdentityTag::kTenantSalt:
      f.tenant_salt = in.rest();
      return true;
    case IdentityTag::kDtype:
      f.dtype = in.rest();
      return true;
    case IdentityTag::kQuantization:
      f.quantization = in.rest();
      return true;
    case IdentityTag::kLayout:
      f.layout = in.rest();
      return true;
    case IdentityTag::kTokensPerPage:
      f.tokens_per_page = in.next<uint32_t>();
      return in.finished();
    case IdentityTag::kPool:
      f.pool = in.rest();
      return true;
    case IdentityTag::kGeometry:
      f.tp_size = in.next<uint16_t>();
      f.pp_size = in.next<uint16_t>();
      f.cp_size = in.next<uint16_t>();
      return in.finished();
    case IdentityTag::kSlice:
      f.slice = in.next<uint16_t>();
      f.slices = in.next<uint16_t>();
      return in.finished();
    case IdentityTag::kParts:
      if (in.left() > kPartsMax * kPartEntryBytes) return false;
      while (in.ok() && in.left() > 0) {
        PartSpec& part = f.parts.emplace_back();
        part.coordinate = in.next<Coordinate>();
        part.bytes = in.next<uint64_t>();
      }
      return in.finished();
    case IdentityTag::kDraftModel:
      f.draft_model = in.rest();
      return true;
    case IdentityTag::kKeyScheme:
      f.key_scheme = in.rest();
      return true;
    case IdentityTag::kDetach:
      f.detach = in.next<std::array<std::byte, 16>>();
      return in.finished();
    case IdentityTag::kExtra: {
      std::string name = in.text(in.next<uint16_t>());
      f.extra.emplace_back(std::move(name), in.rest());
      return in.finished();
    }
  }
  return false;
}

}  // namespace

uint64_t NamespaceFields::page_bytes() const {
  uint64_t sum = 0;
  for (const PartSpec& part : parts) sum += part.bytes;
  return sum;
}

std::optional<uint32_t> NamespaceFields::part_index(const Coordinate& c) const {
  for (uint32_t i = 0; i < parts.size(); ++i) {
    if (parts[i].coordinate == c) return i;
  }
  return std::nullopt;
}

Result<std::vector<std::byte>> encode_identity(const NamespaceFields& f) {
  if (Status checked = check_texts(f); !checked.ok()) return checked;
  if (Status checked = check_numbers(f); !checked.ok()) return checked;
  const auto extra = extra_values(f);
  if (!extra) return extra.status();

  std::vector<std::byte> out, value;
  const auto number_entry = [&](IdentityTag tag, auto... numbers) {
    value.clear();
    (append_value(value, numbers), ...);
    append_entry(out, tag, value);
  };
  number_entry(IdentityTag::kFormatVersion, kIdentityFormat);
  append_entry(out, IdentityTag::kModel, f.model);
  append_entry(out, IdentityTag::kRevision, f.revision);
  if (f.adapter) append_entry(out, IdentityTag::kAdapter, *f.adapter);
  if (f.tenant_salt) append_entry(out, IdentityTag::kTenantSalt, *f.tenant_salt);
  append_entry(out, IdentityTag::kDtype, f.dtype);
  append_entry(out, IdentityTag::kQuantization, f.quantization);
  append_entry(out, IdentityTag::kLayout, f.layout);
  number_entry(IdentityTag::kTokensPerPage, f.tokens_per_page);
  append_entry(out, IdentityTag::kPool, f.pool);
  number_entry(IdentityTag::kGeometry, f.tp_size, f.pp_size, f.cp_size);
  number_entry(IdentityTag::kSlice, f.slice, f.slices);
  value.clear();
  for (const PartSpec& part : f.parts) {
    append_value(value, part.coordinate);
    append_value(value, part.bytes);
  }
  append_entry(out, IdentityTag::kParts, value);
  append_entry(out, IdentityTag::kDraftModel, f.draft_model);
  if (f.key_scheme) append_entry(out, IdentityTag::kKeyScheme, *f.key_scheme);
  if (f.detach) append_entry(out, IdentityTag::kDetach, *f.detach);
  for (const auto& entry : *extra) append_entry(out, IdentityTag::kExtra, entry);
  if (out.size() > kIdentityBytesMax) {
    return bad_field("the encoding", std::to_string(out.size()) + " bytes", "16384 is the most");
  }
  return out;
}

Result<NamespaceFields> decode_identity(Bytes encoded) {
  if (encoded.size() > kIdentityBytesMax) {
    return bad_field("the encoding", std::to_string(encoded.size()) + " bytes",
                     "16384 is the most");
  }
  NamespaceFields fields;
  ValueReader in(encoded);
  while (in.left() > 0) {
    const auto tag = in.next<uint16_t>();
    const auto length = in.next<uint32_t>();
    const Bytes value = in.take(length);
    if (!in.ok()) return bad_field("the encoding", "cut short", "send all of it");
    if (!read_entry(tag, ValueReader(value), fields)) {
      return bad_field("tag " + std::to_string(tag), "unknown or of a wrong form",
                       "encode with the same format version (1)");
    }
  }
  const auto again = encode_identity(fields);
  if (!again) return again.status();
  if (!std::equal(again->begin(), again->end(), encoded.begin(), encoded.end())) {
    return bad_field("the encoding", "not canonical", "sort by tag and give each tag once");
  }
  return fields;
}

Hash128 namespace_id(Bytes encoded) {
  const XXH128_hash_t hash = XXH3_128bits(encoded.data(), encoded.size());
  return {hash.low64, hash.high64};
}

Hash128 page_hash(const Hash128& namespace_id, uint64_t generation, Bytes key) {
  KV_CHECK(key.size() <= kKeyBytesMax);
  std::byte buffer[16 + 8 + 1 + kKeyBytesMax];
  const auto length = static_cast<uint8_t>(key.size());
  std::memcpy(buffer, &namespace_id.low, 8);
  std::memcpy(buffer + 8, &namespace_id.high, 8);
  std::memcpy(buffer + 16, &generation, 8);
  std::memcpy(buffer + 24, &length, 1);
  if (length > 0) std::memcpy(buffer + 25, key.data(), length);
  const XXH128_hash_t hash = XXH3_128bits(buffer, size_t{25} + length);
  return {hash.low64, hash.high64};
}

uint64_t part_seed(const Hash128& page, const Coordinate& coordinate) {
  std::byte buffer[16 + sizeof(Coordinate)];
  std::memcpy(buffer, &page.low, 8);
  std::memcpy(buffer + 8, &page.high, 8);
  std::memcpy(buffer + 16, &coordinate, sizeof coordinate);
  return XXH3_64bits(buffer, sizeof buffer);
}

}  // namespace kvsidecar
