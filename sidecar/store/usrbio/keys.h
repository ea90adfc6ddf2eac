// SPDX-License-Identifier: Apache-2.0
// Names under which memory and rings are registered: a random uuid in its hyphenated form, and what
// follows it after dots. Pure but for make_id(). Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {

// From getrandom(), in the form of uuid version 4: ids are capabilities, nobody may guess one.
MemoryId make_id();
// Lower case, the 16 bytes in order: "00112233-4455-6677-8899-aabbccddeeff".
std::string id_text(const MemoryId& id);
std::optional<MemoryId> parse_id(std::string_view text);  // upper case too; hyphens required

// block_bytes 0: none, the memory is registered as one.
std::string memory_key(const MemoryId& id, uint64_t block_bytes = 0);

struct RingTerms {
  bool for_read = true;
  int32_t io_depth = 0;
  int32_t priority = 0;    // below 0: high; above: low
  int32_t timeout_ms = 0;  // always said: without it the server would read an empty value
  uint64_t flags = 0;
};
std::string ring_key(const MemoryId& id, const RingTerms& terms);

}  // namespace kvsidecar::usrbio
