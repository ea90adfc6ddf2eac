// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/config_file.h"

#include <fstream>
#include <sstream>
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "sidecar/shell/allow_parser.h"
#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/nearest.h"

namespace kvsidecar {
namespace {

std::string at_line(const std::string& source, const toml::node& node) {
  return source + ":" + std::to_string(node.source().begin.line) + ": ";
}

Status at(const std::string& source, const toml::node& node, const Status& status) {
  return {status.code(), at_line(source, node) + status.text()};
}

std::string show(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& n) {
    if constexpr (toml::is_table<decltype(n)>)
      out << "a table";
    else
      out << n;
  });
  return out.str();
}

bool scalar(const toml::node& node, KeyValue& value) {
  if (const auto* i = node.as_integer())
    value = i->get();
  else if (const auto* d = node.as_floating_point())
    value = d->get();
  else if (const auto* b = node.as_boolean())
    value = b->get();
  else if (const auto* s = node.as_string())
    value = s->get();
  else
    return false;
  return true;
}

Status unknown_key(const std::string& section, std::string_view name) {
  std::vector<std::string> known;
  for (const ConfigKey& key : config_keys())
    known.push_back(std::string(key.section) + "." + key.name);
  const std::string full = section + "." + std::string(name);
  return invalid("unknown key " + full + "; did you mean " + nearest(full, known) + "?");
}

Status unknown_section(std::string_view name) {
  std::vector<std::string> known{"allow"};
  for (const ConfigKey& key : config_keys())
    if (known.back() != key.section) known.emplace_back(key.section);
  return invalid("unknown section [" + std::string(name) + "]; did you mean [" +
                 nearest(name, known) + "]?");
}

Status read_section(Config& config, const std::string& section, const toml::table& table,
                    const std::string& source) {
  for (const auto& [name, node] : table) {
    const ConfigKey* found = nullptr;
    for (const ConfigKey& key : config_keys())
      if (section == key.section && name.str() == key.name) found = &key;
    if (found == nullptr) return at(source, node, unknown_key(section, name.str()));
    KeyValue value;
    if (!scalar(node, value))
      return at(source, node,
                invalid(section + "." + found->name + " = " + show(node) +
                        " must be one value, not a list or a table"));
    if (Status status = set_key(config, *found, value); !status.ok())
      return at(source, node, status);
  }
  return {};
}

// An entry as lists of values, so that allow_parser.h needs no TOML.
Status read_allow(Config& config, const toml::node& node, const std::string& source) {
  const toml::array* tables = node.as_array();
  if (tables == nullptr || !tables->is_array_of_tables())
    return at(source, node, invalid("allow must be written as [[allow]], with two brackets"));
  for (const toml::node& entry : *tables) {
    std::vector<AllowValue> values;
    for (const auto& [name, value] : *entry.as_table()) {
      AllowValue& out = values.emplace_back();
      out.name = name.str();
      out.is_list = value.is_array();
      out.values.resize(out.is_list ? value.as_array()->size() : 1);
      for (size_t i = 0; i < out.values.size(); ++i)
        if (!scalar(out.is_list ? *value.as_array()->get(i) : value, out.values[i]))
          return at(
              source, value,
              invalid("allow." + out.name + " = " + show(value) + " must hold numbers or texts"));
    }
    Result<AllowEntry> parsed = parse_allow(values);
    if (!parsed) return at(source, entry, parsed.status());
    parsed->permissions.entry = static_cast<uint32_t>(config.allow.size() + 1);
    config.allow.push_back(parsed.take());
  }
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& source) {
  const toml::parse_result parsed = toml::parse(text, source);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return invalid(source + ":" + std::to_string(error.source().begin.line) + ": " +
                   std::string(error.description()));
  }
  Config config;
  for (const auto& [name, node] : parsed.table()) {
    const std::string section(name.str());
    Status status;
    const bool known = section == "allow" || [&] {
      for (const ConfigKey& key : config_keys())
        if (section == key.section) return true;
      return false;
    }();
    if (!known)
      status = at(source, node, unknown_section(section));
    else if (section == "allow")
      status = read_allow(config, node, source);
    else if (!node.is_table())
      status = at(source, node, invalid(section + " must be a section: [" + section + "]"));
    else
      status = read_section(config, section, *node.as_table(), source);
    if (!status.ok()) return status;
  }
  Result<Config> finished = finish_config(std::move(config));
  if (!finished) return invalid(source + ": " + finished.status().text());
  return finished;
}

Result<Config> load_config(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad())
    return invalid("cannot read the configuration " + path +
                   "; name another with --config, or make it readable");
  return parse_config(text.str(), path);
}

}  // namespace kvsidecar
