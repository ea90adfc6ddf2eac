// SPDX-License-Identifier: Apache-2.0
// How HF3FS's records become a part of a page: both follow from the layout that the SGLang plug-in
// names in the namespace. Pure; any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "ipc/identity.h"

namespace kvsidecar {

// A contiguous piece of a record and where it stands in the part.
struct Piece {
  uint32_t record = 0;
  uint64_t record_offset = 0, part_offset = 0, bytes = 0;
};

struct RecordLayout {
  uint32_t records = 1;       // of a part: 1, or 2: K, then V
  uint64_t record_bytes = 0;  // HF3FS's bytes_per_page
  std::vector<Piece> pieces;
};

// kInvalid with the reason for layouts that HF3FS can't have stored or whose order isn't known.
Result<RecordLayout> record_layout_of(const NamespaceFields& fields);

}  // namespace kvsidecar
