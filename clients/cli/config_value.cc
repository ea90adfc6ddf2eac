// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/config_value.h"

#include <sstream>

namespace kvsidecar {
namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// What stands between the quotes. Paths with control characters keep their escapes: nobody has any.
std::string unquoted(const std::string& value) {
  const char quote = value.empty() ? '\0' : value[0];
  if (quote != '"' && quote != '\'') return "";
  std::string text;
  for (size_t i = 1; i < value.size(); ++i) {
    if (value[i] == quote) return text;
    const bool escape = quote == '"' && value[i] == '\\' && i + 1 < value.size() &&
                        (value[i + 1] == '"' || value[i + 1] == '\\');
    text += escape ? value[++i] : value[i];
  }
  return "";
}

}  // namespace

std::string config_value(const std::string& config_text, const std::string& section,
                         const std::string& key) {
  std::istringstream lines(config_text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (!line.empty() && line[0] == '[') inside = line.rfind("[" + section + "]", 0) == 0;
    const size_t equals = line.find('=');
    if (!inside || equals == std::string::npos || trimmed(line.substr(0, equals)) != key) continue;
    return unquoted(trimmed(line.substr(equals + 1)));
  }
  return "";
}

}  // namespace kvsidecar
