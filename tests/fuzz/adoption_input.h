// SPDX-License-Identifier: Apache-2.0
// What the bytes of adoption_fuzz mean: u8 options, then harms to the chunk that a daemon left,
// each a Harm.
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum AdoptionOptions : uint8_t {
  kGoneLate = 1,   // the predecessor's I/O may land until the pages were asked for
  kNoWorkers = 2,  // queues of one
  kInline = 4
};
enum class HarmKind : uint8_t {
  kByte,    // at `at`: value
  kBytes,   // `count` bytes at `at` become what lies at `from`
  kZero,    // `count` bytes at `at`
  kHeader,  // the check of the header of span `at` is made right
  kRecord,  // slot `from` of the run at span `at`: its field `count` becomes `value`, check right
  kState,   // its state becomes FILLING, FREE or torn
  kKinds
};
struct [[gnu::packed]] Harm {
  uint8_t kind, value;
  uint16_t count;
  uint32_t at, from;
};

}  // namespace kvsidecar::fuzz
