// SPDX-License-Identifier: Apache-2.0
// The table of keys as a file, as a default file and as a man page.
#include <cstring>

#include "sidecar/shell/config_keys.h"

namespace kvsidecar {
namespace {

// Breaks a text into comment lines of at most 96 characters.
std::string comment(const std::string& text) {
  std::string lines, line;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > 94) {
      lines += "# " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return line.empty() ? lines : lines + "# " + line + "\n";
}

std::string kind_of(const ConfigKey& key) {
  const std::string auto_too = key.takes_auto ? " or \"auto\"" : "";
  switch (key.type) {
    case KeyType::kText:
      return "text";
    case KeyType::kCount:
      return "number";
    case KeyType::kBytes:
      return "bytes" + auto_too;
    case KeyType::kDuration:
      return (key.scale == 1'000'000'000 ? "seconds"
              : key.scale == 1'000'000   ? "milliseconds"
                                         : "microseconds") +
             auto_too;
    case KeyType::kChoice:
      break;
  }
  std::string words = key.choices;
  for (size_t bar; (bar = words.find('|')) != std::string::npos;) words.replace(bar, 1, ", ");
  return words;
}

std::string numbers(const std::vector<uint32_t>& list) {
  std::string text = "[";
  for (const uint32_t n : list) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

std::string print_allow(const AllowEntry& entry) {
  const Permissions& p = entry.permissions;
  std::string text = "\n[[allow]]\nuid = " + numbers(entry.uids) + "\ngid = " + numbers(entry.gids);
  std::string granted;
  const std::pair<bool, const char*> all[] = {
      {p.read, "read"}, {p.put, "put"}, {p.clear, "clear"}, {p.admin, "admin"}};
  for (const auto& [given, name] : all)
    if (given) granted += (granted.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  text += "\npermissions = [" + granted + "]\ntenant_salts = [";
  for (size_t i = 0; i < p.tenant_salts.size(); ++i)
    text += (i == 0 ? "" : ", ") + print_text(p.tenant_salts[i]);
  text += "]\npool_bytes_max = " + std::to_string(p.pool_bytes_max);
  text += "\nstore_bytes_max = " + std::to_string(p.store_bytes_max);
  text += "\nbytes_in_flight_max = " + std::to_string(p.bytes_in_flight_max);
  text += "\nregion_bytes_max = " + std::to_string(p.region_bytes_max);
  text += "\nsessions_max = " + std::to_string(p.sessions_max);
  text += "\nnamespaces_max = " + std::to_string(p.namespaces_max);
  return text + "\n";
}

// roff reads a backslash, and a dot or quote that begins a line.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  return out.empty() || (out[0] != '.' && out[0] != '\'') ? out : "\\&" + out;
}

}  // namespace

std::string print_config(const Config& config) {
  std::string text, section;
  for (const ConfigKey& key : config_keys()) {
    if (section != key.section) {
      text += (section.empty() ? "[" : "\n[") + std::string(key.section) + "]\n";
      section = key.section;
    }
    text += std::string(key.name) + " = " + print_value(config, key) + "\n";
  }
  for (const AllowEntry& entry : config.allow) text += print_allow(entry);
  return text;
}

std::string print_default_file() {
  const Config defaults;
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Configuration of kvsidecard. Every key is here with its default; kvsidecard "
      "--check-config\n"
      "# says whether a changed file holds together. Sizes: a number of bytes, or \"512KiB\", "
      "\"8GiB\".\n";
  std::string section;
  for (const ConfigKey& key : config_keys()) {
    if (section != key.section) text += "\n[" + std::string(key.section) + "]\n";
    section = key.section;
    text += "\n" + comment(std::string(key.help) + " (" + kind_of(key) + ")");
    text += "#" + std::string(key.name) + " = " + print_value(defaults, key) + "\n";
  }
  text +=
      "\n# Who may attach, and what he may do: the first [[allow]] that matches decides, by any "
      "of\n"
      "# uid, gid, user and group. Without any, the daemon's own user and the group kvsidecar may\n"
      "# read, put and clear, and the daemon's own user and root may do everything.\n"
      "#[[allow]]\n";
  for (const AllowKey& key : allow_keys())
    text += "#" + std::string(key.name) + " = " + key.example + "  # " + key.help + " (" +
            key.type + ")\n";
  return text;
}

std::string print_man_table() {
  const Config defaults;
  std::string text, section;
  for (const ConfigKey& key : config_keys()) {
    if (section != key.section) text += ".SS [" + std::string(key.section) + "]\n";
    section = key.section;
    text += ".TP\n.BR " + std::string(key.name) + " \" = " + kind_of(key) + "\"\n";
    for (size_t quote = text.size();
         (quote = text.rfind("\"auto\"", quote)) != std::string::npos && quote > text.rfind(".TP");)
      text.replace(quote, 6, "auto");
    text += roff(key.help) + "\n";
    const std::string value = print_value(defaults, key);
    if (value != "\"\"") text += "Default: " + roff(value) + ".\n";
  }
  text += ".SS [[allow]]\n";
  for (const AllowKey& key : allow_keys())
    text +=
        ".TP\n.BR " + std::string(key.name) + " \" = " + key.type + "\"\n" + roff(key.help) + "\n";
  return text;
}

}  // namespace kvsidecar
