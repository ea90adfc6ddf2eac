// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "ipc/os.h"
#include "sidecar/shell/allow_parser.h"
#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/nearest.h"
#include "sidecar/shell/toml.h"

namespace kvsidecar {
namespace {

constexpr size_t kConfigBytesMax = 4u << 20;

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

// A section that isn't known, or a key that stands before the first section.
Status unknown_top_level(std::string_view name, const toml::node& node) {
  const bool section = node.is_table() || node.is_array_of_tables();
  std::vector<std::string> sections{"allow"}, names;
  for (const ConfigKey& key : config_keys()) {
    if (sections.back() != key.section) sections.emplace_back(key.section);
    names.emplace_back(key.name);
  }
  if (section)
    return invalid("unknown section [" + std::string(name) + "]; did you mean [" +
                   nearest(name, sections) + "]?");
  const std::string likely = nearest(name, names);
  std::string where;
  for (const ConfigKey& key : config_keys())
    if (likely == key.name)
      where += (where.empty() ? "" : " or ") + likely + " under [" + key.section + "]";
  return invalid("key " + std::string(name) + " stands in no section; did you mean " + where + "?");
}

bool is_section(const std::string& name) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const ConfigKey& key) { return name == key.section; });
}

Status read_section(Config& config, const std::string& section, const toml::table& table,
                    const std::string& source) {
  for (const auto& [name, node] : table) {
    const std::string inner = section + "." + std::string(name.str());
    if (node.is_table() && is_section(inner)) {
      if (Status status = read_section(config, inner, *node.as_table(), source); !status.ok())
        return status;
      continue;
    }
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
    const toml::source_position& begin = error.source().begin;
    return invalid(source + ":" + std::to_string(begin.line) + ":" + std::to_string(begin.column) +
                   ": " + std::string(error.description()));
  }
  Config config;
  config.source = source;
  for (const auto& [name, node] : parsed.table()) {
    const std::string section(name.str());
    Status status;
    if (section != "allow" && !is_section(section))
      status = at(source, node, unknown_top_level(section, node));
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
  const auto refused = [&](const std::string& why) {
    return invalid("cannot read the configuration " + path + ": " + why +
                   "; name another with --config, or make it readable");
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return refused(std::strerror(errno));
  std::string text(kConfigBytesMax + 1, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.get(), &text[length], text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(std::strerror(errno));  // a directory ends here
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  if (length > kConfigBytesMax)
    return refused("it has more than " + std::to_string(kConfigBytesMax) + " bytes");
  text.resize(length);
  return parse_config(text, path);
}

}  // namespace kvsidecar
