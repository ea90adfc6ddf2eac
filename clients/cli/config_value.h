// SPDX-License-Identifier: Apache-2.0
// Single values out of a kvsidecar.toml, without a parser for all of it. Pure; any thread.
#pragma once
#include <string>

namespace kvsidecar {

// The text of a key in the table [section]; empty when it isn't there or isn't a quoted text.
std::string config_value(const std::string& config_text, const std::string& section,
                         const std::string& key);

}  // namespace kvsidecar
