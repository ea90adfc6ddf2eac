// SPDX-License-Identifier: Apache-2.0
// Names of HF3FS's records: which page, which half of it, which rank's. Pure; any thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvsidecar {

using PageKey = std::array<std::byte, 32>;  // SGLang's SHA-256 of a page, as the plug-in stores it

enum class Half : uint8_t { kK = 0, kV = 1, kWhole = 2 };

struct RecordKey {
  PageKey hash;
  Half half = Half::kWhole;
  std::optional<uint16_t> tp, tp_size;  // named only where ranks share a file
};

// "{hash}", "{hash}-k" and "{hash}-v" of the pool kv; "{hash}_{pool}" and "{hash}_{pool}_{tp}_{tp
// size}" of others. Nothing else is one.
std::optional<RecordKey> parse_record_key(std::string_view text, std::string_view pool);

}  // namespace kvsidecar
