// SPDX-License-Identifier: Apache-2.0
// What lies in the shared memory of one session, byte by byte. The daemon creates three sealed
// memfds and passes them with WELCOME; none has a name.
//
//   submission  client RW  [SubmissionHead 4 KiB][cells 2 KiB each][arena blocks 64 KiB each]
//   completion  client RO  [InfoPage 16 KiB][cells 4 KiB each]      (F_SEAL_FUTURE_WRITE)
//   cells       client RW  [CellPage 4 KiB][fences 8 B each][claim words 8 B each]
//
// Positions are 64-bit, monotonic, on 128-byte lines of their own (adjacent-line prefetch); a cell
// is cells[position % count]; the writer publishes last. Nobody reads back a value he wrote himself
// from memory that the peer can write. All integers are little-endian.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvsidecar {

inline constexpr uint32_t kProtocolMajor = 1;
inline constexpr uint32_t kProtocolMinor = 0;

inline constexpr uint32_t kSubmissionCellBytes = 2048;
inline constexpr uint32_t kCompletionCellBytes = 4096;
inline constexpr uint32_t kArenaBlockBytes = 64 * 1024;  // = the largest request
inline constexpr uint32_t kRequestBytesMax = 64 * 1024;
inline constexpr uint32_t kItemsMax = 2048;        // keys or items of one record
inline constexpr uint32_t kLookupKeysMax = 32768;  // keys of one lookup over all its records
inline constexpr uint32_t kLookupFindsMax = 2 * kLookupKeysMax;  // its keys times its pools
inline constexpr uint32_t kKeyBytesMax = 64;
inline constexpr uint32_t kRunsMax = 64;  // explicit runs of one item
inline constexpr uint32_t kDescriptionBytesMax = 16 * 1024;
inline constexpr uint32_t kPoolsMax = 16;   // pools of one lookup
inline constexpr uint32_t kPartsMax = 256;  // parts of one page
inline constexpr uint64_t kPageBytesMax = 1ull << 30;

// Geometry of one session; WELCOME carries it, the client checks it against the memfds' sizes.
struct Geometry {
  uint32_t submission_cells;  // power of two, 8..1024
  uint32_t arena_blocks;      // 1..64
  uint32_t completion_cells;  // power of two, 8..1024: also the credit, cells reserved at admission
  uint32_t fences;            // 1..65536
  uint32_t claims;            // power of two, 64..65536
  uint32_t progress_words;    // 1..1024, in the InfoPage
};
static_assert(sizeof(Geometry) == 24);
inline constexpr Geometry kDefaultGeometry{128, 16, 128, 1024, 8192, 512};

enum class RecordType : uint16_t {
  kAttach = 1,
  kRegisterRegion,
  kRegisterLayout,
  kUnregister,
  kLookup,
  kPut,
  kGet,
  kRelease,
  kCancel,
  kDelete,
  kClear,
  kStat,
  kWhy,
  kNoop,
};

// Head of a submission cell; the payload (a FlatBuffer of that type) follows in the cell, or lies
// in the arena when arena_length > 0 (then length is 0).
struct RecordHead {
  uint32_t length;  // payload bytes in this cell, <= kSubmissionCellBytes - sizeof(RecordHead)
  uint16_t type;    // RecordType
  uint16_t flags;   // 0
  uint64_t
      request;  // client's number, grows by 1 or more with every request; also the claims' sequence
  uint64_t deadline_ns;   // absolute CLOCK_MONOTONIC; 0 is refused
  uint32_t arena_offset;  // multiple of 64 inside the arena
  uint32_t arena_length;  // <= kRequestBytesMax
  uint32_t reserved[8];   // 0
};
static_assert(sizeof(RecordHead) == 64);

// Head of a completion cell. A request of n records is answered by n cells, published together
// (n > 1 only for lookups); payload as requests.h says, or a sentence when status is an error.
struct CompletionHead {
  uint64_t request;
  uint32_t length;  // payload bytes in this cell
  uint8_t status;   // Code of the request as a whole
  uint8_t type;     // RecordType of the request
  uint16_t cell;    // 0-based number of this cell in the answer
  uint16_t cells;   // cells of the answer
  uint16_t flags;   // kCompletion*
  uint32_t items;   // item statuses or places in this cell
  uint64_t handle;  // lease, region, layout or namespace handle
  uint64_t value;   // lookup: longest restorable prefix; attach/clear: generation; region: echo;
                    // stat: total bytes
  uint64_t received_ns, done_ns;  // CLOCK_MONOTONIC, daemon's
  uint64_t reserved;              // 0
};
static_assert(sizeof(CompletionHead) == 64);
inline constexpr uint16_t kCompletionLeaseCapped =
    1;  // a lease was asked for and not given: caps reached

struct SubmissionHead {
  alignas(128) std::atomic<uint64_t> published;  // client writes: records published so far
  uint8_t pad[4096 - 128];
};
static_assert(sizeof(SubmissionHead) == 4096);

struct InfoPage {
  uint64_t magic;  // kInfoMagic, written last
  uint32_t protocol_major, protocol_minor;
  uint64_t epoch, session;
  Geometry geometry;
  alignas(128) std::atomic<uint64_t> consumed;   // submission records consumed: cells and arena of
                                                 // these are free
  alignas(128) std::atomic<uint64_t> published;  // completion cells published
  alignas(128) std::atomic<uint32_t> doorbell;   // futex word, bumped after `published`; FUTEX_WAIT
                                                 // works on a read-only map
  alignas(128) std::atomic<uint32_t> daemon_sleeps;  // 1: the client must write the kick eventfd
                                                     // after publishing
  alignas(128) std::atomic<uint64_t> heartbeat;  // grows while the conductor turns; telemetry only
  alignas(128) std::atomic<uint64_t> progress[1024];  // layers done, for gets that name one
  uint8_t pad[16384 - 6 * 128 - 8192];
};
static_assert(sizeof(InfoPage) == 16384);
inline constexpr uint64_t kInfoMagic = 0x31304f464e49564bull;  // "KVINFO01"

struct CellPage {
  alignas(128) std::atomic<uint64_t> consumed;       // completion cells consumed by the client
  alignas(128) std::atomic<uint32_t> client_sleeps;  // 1: waits on the doorbell futex; 2: on the
                                                     // notify bell; 3: both
  alignas(128) std::atomic<uint64_t> heartbeat;      // telemetry only
  uint8_t pad[4096 - 3 * 128];
};
static_assert(sizeof(CellPage) == 4096);

constexpr size_t submission_bytes(const Geometry& g) {
  return sizeof(SubmissionHead) + size_t{g.submission_cells} * kSubmissionCellBytes +
         size_t{g.arena_blocks} * kArenaBlockBytes;
}
constexpr size_t arena_start(const Geometry& g) {
  return sizeof(SubmissionHead) + size_t{g.submission_cells} * kSubmissionCellBytes;
}
constexpr size_t completion_bytes(const Geometry& g) {
  return sizeof(InfoPage) + size_t{g.completion_cells} * kCompletionCellBytes;
}
constexpr size_t cells_bytes(const Geometry& g) {
  return (sizeof(CellPage) + 8 * (size_t{g.fences} + g.claims) + 4095) / 4096 * 4096;
}

}  // namespace kvsidecar
