// SPDX-License-Identifier: Apache-2.0
// The decoder of every request, over arbitrary bytes: nothing outside of them is read, a refusal is
// a sentence, what is accepted keeps to the limits of layout.h, and encoding it gives a record that
// says the same again. Input: one byte of RecordType, then the record. Type 0: a namespace's
// canonical form, which must come back bit by bit.
#include "ipc/codec.h"
#include "ipc/identity.h"
#include "tests/fuzz/fuzz_input.h"

namespace kvsidecar::fuzz {
namespace {

void check_keys(const Keys& keys) {
  require(keys.key_bytes >= 1 && keys.key_bytes <= kKeyBytesMax, "keys have 1 to 64 bytes");
  require(keys.count() >= 1 && keys.count() <= kItemsMax, "a record has 1 to 2048 keys");
  require(keys.bytes.size() == size_t{keys.count()} * keys.key_bytes, "keys fill their vector");
}

void check_items(const Keys& keys, const Items& items) {
  require(items.count() == keys.count(), "an item for each key");
  for (const RunItem& item : items.run_items) {
    require(item.run_count >= 1 && item.run_count <= kRunsMax, "an item has 1 to 64 runs");
    require(uint64_t{item.first_run} + item.run_count <= items.runs.size(), "runs lie inside");
  }
  for (const Run& run : items.runs)
    require(run.length > 0 && run.offset + run.length > run.offset, "a run's end is a number");
}

void check(const AttachRequest& r) {
  require(!r.identity.empty() && r.identity.size() <= kIdentityBytesMax, "identity's size");
  require(r.group.empty() || r.group.size() == 16, "group's size");
  const uint32_t ranks = r.group_size == 0 ? 1 : r.group_size;
  require(r.rank < ranks || r.rank == kCoordinatorRank, "a rank of the group");
}
void check(const RegisterRegionRequest& r) {
  require(r.offset + r.bytes >= r.offset, "a region's end is a number");
  require(r.echo_offset % 8 == 0 && r.echo_offset <= r.bytes && r.bytes - r.echo_offset >= 8,
          "the echo lies inside");
}
void check(const RegisterLayoutRequest& r) {
  require(r.blocks > 0 && !r.runs.empty() && r.runs.size() <= kItemsMax, "blocks and runs");
  for (const LayoutRun& run : r.runs) {
    const auto end = static_cast<unsigned __int128>(run.block_stride) * (r.blocks - 1) + run.base +
                     run.run_length;
    require(run.run_length > 0 && end <= UINT64_MAX, "a layout's end is a number");
  }
}
void check(const UnregisterRequest&) {}
void check(const LookupRequest& r) {
  check_keys(r.keys);
  require(r.total <= kLookupKeysMax && uint64_t{r.offset} + r.keys.count() <= r.total,
          "a piece lies in its lookup");
  require(!r.pools.empty() && r.pools.size() <= kPoolsMax, "1 to 16 pools");
}
void check(const PutRequest& r) {
  check_keys(r.keys);
  check_items(r.keys, r.items);
  uint32_t begin = 0;
  for (const uint32_t end : r.description_ends) {
    require(end >= begin && end - begin <= kDescriptionBytesMax, "a description's size");
    begin = end;
  }
  require(begin == r.descriptions.size(), "descriptions fill their vector");
}
void check(const GetRequest& r) {
  check_keys(r.keys);
  check_items(r.keys, r.items);
}
void check(const ReleaseRequest&) {}
void check(const CancelRequest&) {}
void check(const DeleteRequest& r) { check_keys(r.keys); }
void check(const ClearRequest& r) {
  require((r.namespace_handle != 0) == r.namespace_id.empty(), "a handle or an id");
}
void check(const StatRequest& r) { require(r.what <= StatWhat::kDrain, "a known stat"); }
void check(const WhyRequest& r) {
  require(!r.key.empty() && r.key.size() <= kKeyBytesMax, "a key has 1 to 64 bytes");
}

template <typename Request>
void decode_and_back(Bytes record, Result<Request> (*decode)(Bytes)) {
  const ExactCopy copy(record);
  const Result<Request> decoded = decode(copy.bytes());
  if (!decoded.ok()) {
    require(decoded.status().code() == Code::kInvalid, "a bad record is INVALID");
    return require_sentence(decoded.status());
  }
  check(*decoded);
  Encoded once, twice;
  encode(*decoded, once);
  if (once.size() > kRequestBytesMax) return;  // vectors that shared bytes don't any more
  const ExactCopy second(once);
  const Result<Request> again = decode(second.bytes());
  require(again.ok(), "what was accepted is accepted again:", again.status().text());
  check(*again);
  encode(*again, twice);
  require(once == twice, "a record says the same after a round trip");
}

void identity_and_back(Bytes encoded) {
  const ExactCopy copy(encoded);
  const Result<NamespaceFields> fields = decode_identity(copy.bytes());
  if (!fields.ok()) return require_sentence(fields.status());
  const auto again = encode_identity(*fields);
  require(again.ok() && std::equal(again->begin(), again->end(), encoded.begin(), encoded.end()),
          "a namespace has one form");
  require(fields->page_bytes() <= kPageBytesMax, "a page's size");
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar;
  using namespace kvsidecar::fuzz;
  FuzzInput in(data, bytes);
  const uint8_t type = in.take<uint8_t>();
  const Bytes record = in.rest();
  switch (static_cast<RecordType>(type)) {
    case RecordType::kAttach:
      return decode_and_back(record, decode_attach), 0;
    case RecordType::kRegisterRegion:
      return decode_and_back(record, decode_register_region), 0;
    case RecordType::kRegisterLayout:
      return decode_and_back(record, decode_register_layout), 0;
    case RecordType::kUnregister:
      return decode_and_back(record, decode_unregister), 0;
    case RecordType::kLookup:
      return decode_and_back(record, decode_lookup), 0;
    case RecordType::kPut:
      return decode_and_back(record, decode_put), 0;
    case RecordType::kGet:
      return decode_and_back(record, decode_get), 0;
    case RecordType::kRelease:
      return decode_and_back(record, decode_release), 0;
    case RecordType::kCancel:
      return decode_and_back(record, decode_cancel), 0;
    case RecordType::kDelete:
      return decode_and_back(record, decode_delete), 0;
    case RecordType::kClear:
      return decode_and_back(record, decode_clear), 0;
    case RecordType::kStat:
      return decode_and_back(record, decode_stat), 0;
    case RecordType::kWhy:
      return decode_and_back(record, decode_why), 0;
    case RecordType::kNoop:
      return 0;
  }
  if (type == 0) identity_and_back(record);
  return 0;
}
