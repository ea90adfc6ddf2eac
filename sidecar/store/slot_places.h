// SPDX-License-Identifier: Apache-2.0
// Where the slots of one segment file lie. Pages of a segment are of one size and are appended one
// after the other, so nearly all lie evenly: a stretch of them takes 20 bytes, however long it is.
// One owner.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace kvsidecar {

struct SlotPlace {
  uint64_t offset = 0;
  uint32_t trailer_bytes = 0;
};

class SlotPlaces {
 public:
  // Offsets are multiples of kSlotUnit and not 0. A slot that is known moves.
  void set(uint32_t slot, const SlotPlace& place);
  bool clear(uint32_t slot);  // false: there was none
  std::optional<SlotPlace> find(uint32_t slot) const;
  void clear_all();
  uint64_t memory_bytes() const;

 private:
  struct Stretch {
    uint32_t first = 0, count = 1;  // slots
    uint32_t offset_units = 0, stride_units = 0;
    uint32_t trailer_bytes = 0;
    uint32_t end() const { return first + count; }
    uint32_t offset_of(uint32_t slot) const { return offset_units + (slot - first) * stride_units; }
  };
  static bool join(Stretch& to, const Stretch& next);
  bool is_gone(uint32_t slot) const { return slot < gone_.size() && gone_[slot]; }
  size_t behind(uint32_t slot) const;  // the first stretch that begins after it
  void cut_out(uint32_t slot);

  std::vector<Stretch> stretches_;  // by slot; they don't overlap
  std::vector<bool> gone_;          // cleared since
};

}  // namespace kvsidecar
