// SPDX-License-Identifier: Apache-2.0
#include "clients/cpp/identity.h"

#include <cstring>

#include "ipc/layout.h"

namespace kvsidecar::clientlib {
namespace {

struct Required {
  const char* name;
  const char* value;
  std::string* out;
};

class TagWriter {
 public:
  void entry(uint16_t tag, const void* bytes, size_t length) {
    integer(tag, 2);
    integer(length, 4);
    const auto* from = static_cast<const std::byte*>(bytes);
    out.insert(out.end(), from, from + length);
  }
  void number(uint16_t tag, uint32_t value) {
    integer(tag, 2);
    integer(4, 4);
    integer(value, 4);
  }
  void integer(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte> out;
};

}  // namespace

Result<NamespaceFields> to_fields(const kvs_namespace_fields& in) {
  NamespaceFields out;
  for (const Required& field : {Required{"model", in.model, &out.model},
                                {"revision", in.revision, &out.revision},
                                {"dtype", in.dtype, &out.dtype},
                                {"quantization", in.quantization, &out.quantization},
                                {"layout", in.layout, &out.layout},
                                {"pool", in.pool, &out.pool},
                                {"draft_model", in.draft_model, &out.draft_model}}) {
    if (field.value == nullptr)
      return invalid(std::string(field.name) +
                     " of namespace is missing (NULL); it decides the bytes, so it has no default");
    *field.out = field.value;
  }
  if (in.adapter != nullptr) out.adapter = in.adapter;
  if (in.tenant_salt != nullptr) out.tenant_salt = in.tenant_salt;
  if (in.key_scheme != nullptr) out.key_scheme = in.key_scheme;
  out.tokens_per_page = in.tokens_per_page;
  out.tp_size = in.tp_size;
  out.pp_size = in.pp_size;
  out.cp_size = in.cp_size;
  out.slice = in.slice;
  out.slices = in.slices;
  if (in.parts == nullptr && in.part_count > 0) return invalid("parts of namespace is NULL");
  for (size_t i = 0; i < in.part_count; ++i) {
    const kvs_coordinate& c = in.parts[i].coordinate;
    out.parts.push_back({{c.tp, c.pp, c.cp, c.reserved}, in.parts[i].bytes});
  }
  if (in.extras == nullptr && in.extra_count > 0) return invalid("extras of namespace is NULL");
  for (size_t i = 0; i < in.extra_count; ++i) {
    const kvs_extra& extra = in.extras[i];
    if (extra.name == nullptr || (extra.value == nullptr && extra.value_bytes > 0))
      return invalid("extras[" + std::to_string(i) + "] of namespace has no name or value");
    const auto* value = static_cast<const char*>(extra.value);
    out.extra.emplace_back(extra.name,
                           std::string(value != nullptr ? value : "", extra.value_bytes));
  }
  return out;
}

Result<std::vector<std::byte>> encode_description(const kvs_description& in) {
  TagWriter writer;
  if (in.parent_key_bytes > kKeyBytesMax)
    return invalid("parent_key_bytes " + std::to_string(in.parent_key_bytes) + " is over 64");
  if ((in.parent_key == nullptr && in.parent_key_bytes > 0) ||
      (in.token_ids == nullptr && in.token_count > 0) ||
      (in.extra_keys == nullptr && in.extra_keys_bytes > 0))
    return invalid("description: a length without its pointer");
  if (in.token_count > kDescriptionBytesMax / 4 || in.extra_keys_bytes > kDescriptionBytesMax)
    return invalid("description: more than " + std::to_string(kDescriptionBytesMax) + " bytes");
  if (in.parent_key != nullptr) writer.entry(1, in.parent_key, in.parent_key_bytes);
  if (in.token_ids != nullptr) {
    writer.integer(2, 2);
    writer.integer(in.token_count * 4, 4);
    for (size_t i = 0; i < in.token_count; ++i) writer.integer(in.token_ids[i], 4);
  }
  if (in.block_size != 0) writer.number(3, in.block_size);
  if (in.adapter != nullptr) writer.entry(4, in.adapter, std::strlen(in.adapter));
  if (in.extra_keys != nullptr) writer.entry(5, in.extra_keys, in.extra_keys_bytes);
  if (in.has_pool_group != 0) writer.number(6, in.pool_group);
  if (writer.out.size() > kDescriptionBytesMax)
    return invalid("description has " + std::to_string(writer.out.size()) + " bytes, more than " +
                   std::to_string(kDescriptionBytesMax));
  return writer.out;
}

}  // namespace kvsidecar::clientlib
