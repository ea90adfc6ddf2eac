// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/target_namespace.h"

#include <nlohmann/json.hpp>

#include "ipc/page_origin.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kDescriptionBytesMax = kOriginBytesMax + 6;  // one entry

const Json* find_row(const Json& json, const std::string& id) {
  if (!json.is_object() || !json.contains("namespaces")) return nullptr;
  for (const Json& row : json["namespaces"])
    if (row.value("namespace", "") == id) return &row;
  return nullptr;
}

Status check_fields(const NamespaceFields& fields, const std::string& what) {
  if (fields.detach.has_value())
    return invalid(what +
                   " is one engine's alone (on_reset = detach), with weights that HF3FS's "
                   "pages weren't made with; name the engines' common one");
  if (fields.pp_size != 1 || fields.cp_size != 1)
    return invalid(what + " is of pp " + std::to_string(fields.pp_size) + ", cp " +
                   std::to_string(fields.cp_size) +
                   "; HF3FS mixes the pages of pipeline and context ranks up, so they can't be "
                   "imported");
  return {};
}

kvs_coordinate coordinate_of(const Coordinate& c) { return {c.tp, c.pp, c.cp, 0}; }

}  // namespace

Status status_of(const client::Outcome& outcome) {
  return {static_cast<Code>(outcome.status()), outcome.text()};
}

Result<TargetNamespace> find_target(const std::string& list, const std::string& hex) {
  auto id = namespace_of_hex(hex);
  if (!id)
    return invalid("--namespace " + hex +
                   " isn't an id; give the 32 hex digits that `kvsidecar ls` shows");
  TargetNamespace target;
  target.hex = hex_of(id->data(), id->size());
  const std::string what = "--namespace " + target.hex;
  const Json json = Json::parse(list, nullptr, false);
  const Json* row = find_row(json, target.hex);
  if (row == nullptr)
    return invalid(what +
                   " isn't known; start the engine with kvsidecar.sglang.HiCache once, then "
                   "see `kvsidecar ls`");
  auto encoded = bytes_of_hex("the namespace's identity", row->value("identity", ""));
  if (!encoded)
    return Status(Code::kUnsupportedVersion,
                  "the daemon doesn't tell a namespace's identity; upgrade kvsidecard");
  auto fields = decode_identity(std::as_bytes(std::span(*encoded)));
  if (!fields) return fields.status();
  target.fields = fields.take();
  if (Status status = check_fields(target.fields, what); !status.ok()) return status;
  auto layout = record_layout_of(target.fields);
  if (!layout) return invalid(what + ": " + layout.status().text());
  target.layout = layout.take();
  target.generation = row->value("generation", uint64_t{0});
  target.has_own_pages = row->value("has_own_pages", true);
  return target;
}

Result<kvs_namespace> attach_target(client::Client& client, const TargetNamespace& target) {
  const NamespaceFields& from = target.fields;
  std::vector<kvs_part> parts;
  for (const PartSpec& part : from.parts)
    parts.push_back({coordinate_of(part.coordinate), part.bytes});
  std::vector<kvs_extra> extras;
  for (const auto& [name, value] : from.extra)
    extras.push_back({name.c_str(), value.data(), value.size()});
  const auto optional = [](const std::optional<std::string>& text) {
    return text ? text->c_str() : nullptr;
  };
  kvs_namespace_fields fields{};
  fields.model = from.model.c_str();
  fields.revision = from.revision.c_str();
  fields.dtype = from.dtype.c_str();
  fields.quantization = from.quantization.c_str();
  fields.layout = from.layout.c_str();
  fields.pool = from.pool.c_str();
  fields.draft_model = from.draft_model.c_str();
  fields.adapter = optional(from.adapter);
  fields.tenant_salt = optional(from.tenant_salt);
  fields.key_scheme = optional(from.key_scheme);
  fields.tokens_per_page = from.tokens_per_page;
  fields.tp_size = from.tp_size;
  fields.pp_size = from.pp_size;
  fields.cp_size = from.cp_size;
  fields.slice = from.slice;
  fields.slices = from.slices;
  fields.parts = parts.data();
  fields.part_count = parts.size();
  fields.extras = extras.data();
  fields.extra_count = extras.size();
  kvs_attach_args args{};
  args.coordinate = parts[0].coordinate;
  args.description_bytes_max = kDescriptionBytesMax;
  auto made = client.attach(fields, args);
  if (!made) return status_of(made.outcome());
  NamespaceId id{};
  uint64_t generation = 0;
  const kvs_status known = kvs_namespace_get(client.c(), *made, id.data(), &generation);
  if (known != KVS_OK) return status_of(client::Outcome(known));
  if (hex_of(id.data(), id.size()) != target.hex || generation != target.generation)
    return Status(Code::kStaleNamespace, "--namespace " + target.hex +
                                             " was cleared or isn't itself any more; run it again");
  return *made;
}

}  // namespace kvsidecar
