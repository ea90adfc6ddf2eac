// SPDX-License-Identifier: Apache-2.0
// kvsidecar.toml -> Config. Every error names the key, its value and the remedy; an unknown key is
// refused with the nearest known one. Reads files and the user database; start-up only.
#pragma once
#include <string_view>

#include "sidecar/shell/config.h"

namespace kvsidecar {

// The text of a configuration file; `source` names it in errors. The result is finished
// (finish_config).
Result<Config> parse_config(std::string_view toml, const std::string& source);
// kInvalid when the file can't be read, or is none.
Result<Config> load_config(const std::string& path);

}  // namespace kvsidecar
