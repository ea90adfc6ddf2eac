// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/allow_parser.h"

#include <grp.h>
#include <pwd.h>

#include "sidecar/shell/nearest.h"

namespace kvsidecar {
namespace {

const std::vector<std::string> kPermissionNames{"read", "put", "clear", "admin"};

std::string show(const KeyValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* s = std::get_if<std::string>(&value)) return "\"" + *s + "\"";
  return "a value of another type";
}

Status wrong(const AllowValue& value, const KeyValue& item, const std::string& remedy) {
  return invalid("allow." + value.name + " = " + show(item) + " " + remedy);
}

Status read_numbers(const AllowValue& value, std::vector<uint32_t>& out) {
  for (const KeyValue& item : value.values) {
    const auto* number = std::get_if<int64_t>(&item);
    if (number == nullptr || *number < 0 || *number >= 0xffffffffll)
      return wrong(value, item, "must be a number from 0 to 4294967294; names go into user, group");
    out.push_back(static_cast<uint32_t>(*number));
  }
  return {};
}

Status read_names(const AllowValue& value, bool groups, std::vector<uint32_t>& out) {
  for (const KeyValue& item : value.values) {
    const auto* name = std::get_if<std::string>(&item);
    if (name == nullptr) return wrong(value, item, "must be a name in quotes");
    const bool whole = name->find('\0') == std::string::npos;  // else another name is looked up
    const passwd* user = whole && !groups ? getpwnam(name->c_str()) : nullptr;
    const group* members = whole && groups ? getgrnam(name->c_str()) : nullptr;
    if (user == nullptr && members == nullptr)
      return wrong(value, item,
                   "is not known on this machine; create it, or remove it from the list");
    out.push_back(groups ? members->gr_gid : user->pw_uid);
  }
  return {};
}

Status read_permissions(const AllowValue& value, Permissions& out) {
  out.read = out.put = out.clear = out.admin = false;
  for (const KeyValue& item : value.values) {
    const auto* name = std::get_if<std::string>(&item);
    if (name == nullptr) return wrong(value, item, "must be a text in quotes");
    if (*name == "read")
      out.read = true;
    else if (*name == "put")
      out.put = true;
    else if (*name == "clear")
      out.clear = true;
    else if (*name == "admin")
      out.admin = true;
    else
      return wrong(value, item,
                   "is not a permission; did you mean \"" +
                       (*name == "write" ? "put" : nearest(*name, kPermissionNames)) +
                       "\"? There are read, put, clear and admin");
  }
  return {};
}

Status read_salts(const AllowValue& value, Permissions& out) {
  out.tenant_salts.clear();
  for (const KeyValue& item : value.values) {
    const auto* salt = std::get_if<std::string>(&item);
    if (salt == nullptr) return wrong(value, item, "must be a text in quotes");
    out.tenant_salts.push_back(*salt);
  }
  return {};
}

Status read_quota(const AllowValue& value, uint64_t& out) {
  const KeyValue& item = value.values.empty() ? KeyValue{} : value.values[0];
  if (const auto* number = std::get_if<int64_t>(&item);
      !value.is_list && number != nullptr && *number >= 0) {
    out = static_cast<uint64_t>(*number);
    return {};
  }
  if (const auto* text = std::get_if<std::string>(&item); !value.is_list && text != nullptr) {
    const Result<uint64_t> parsed = parse_bytes(*text);
    if (!parsed) return wrong(value, item, parsed.status().text());
    out = *parsed;
    return {};
  }
  return wrong(value, item, "must be one size, such as \"8GiB\"; 0 is no limit");
}

Status read_count(const AllowValue& value, uint64_t most, uint32_t& out) {
  uint64_t count = 0;
  if (Status status = read_quota(value, count); !status.ok()) return status;
  if (count > most) return wrong(value, value.values[0], "must be 0 to " + std::to_string(most));
  out = static_cast<uint32_t>(count);
  return {};
}

Status read_value(const AllowValue& value, AllowEntry& entry) {
  Permissions& p = entry.permissions;
  if (value.name == "uid") return read_numbers(value, entry.uids);
  if (value.name == "gid") return read_numbers(value, entry.gids);
  if (value.name == "user") return read_names(value, false, entry.uids);
  if (value.name == "group") return read_names(value, true, entry.gids);
  if (value.name == "permissions") return read_permissions(value, p);
  if (value.name == "tenant_salts") return read_salts(value, p);
  if (value.name == "pool_bytes_max") return read_quota(value, p.pool_bytes_max);
  if (value.name == "store_bytes_max") return read_quota(value, p.store_bytes_max);
  if (value.name == "bytes_in_flight_max") return read_quota(value, p.bytes_in_flight_max);
  if (value.name == "region_bytes_max") return read_quota(value, p.region_bytes_max);
  if (value.name == "sessions_max") return read_count(value, 65536, p.sessions_max);
  if (value.name == "namespaces_max") return read_count(value, 1'000'000, p.namespaces_max);
  std::vector<std::string> known;
  for (const AllowKey& key : allow_keys()) known.emplace_back(key.name);
  return invalid("unknown key allow." + value.name + "; did you mean allow." +
                 nearest(value.name, known) + "?");
}

}  // namespace

Result<AllowEntry> parse_allow(const std::vector<AllowValue>& values) {
  AllowEntry entry;
  entry.permissions.read = entry.permissions.put = true;
  entry.permissions.tenant_salts = {"*"};
  for (const AllowValue& value : values)
    if (Status status = read_value(value, entry); !status.ok()) return status;
  if (entry.uids.empty() && entry.gids.empty())
    return invalid("[[allow]] matches nobody; give uid, gid, user or group");
  return entry;
}

}  // namespace kvsidecar
