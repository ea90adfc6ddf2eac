// SPDX-License-Identifier: Apache-2.0
// Encoding, and the proof that plain and wire structs are the same; decoding is in codec_decode.cc.
#include "ipc/codec.h"
#include "kvsidecar_generated.h"

namespace kvsidecar {
namespace {

// The plain structs are read in place of the wire's.
template <typename Plain, typename Wire>
constexpr bool kSameShape = sizeof(Plain) == sizeof(Wire) &&
                            alignof(Plain) == alignof(Wire) && std::is_trivially_copyable_v<Plain>;
static_assert(kSameShape<Fence, wire::Fence> && offsetof(Fence, reserved) == 4 &&
              offsetof(Fence, value) == 8);
static_assert(kSameShape<Coordinate, wire::Coordinate> && offsetof(Coordinate, pp) == 2 &&
              offsetof(Coordinate, cp) == 4 && offsetof(Coordinate, reserved) == 6);
static_assert(kSameShape<Block, wire::Block> && offsetof(Block, block) == 8 &&
              offsetof(Block, claim) == 12);
static_assert(kSameShape<RunItem, wire::RunItem> && offsetof(RunItem, run_count) == 4 &&
              offsetof(RunItem, claim) == 8 && offsetof(RunItem, reserved) == 12);
static_assert(kSameShape<Run, wire::Run> && offsetof(Run, offset) == 8 &&
              offsetof(Run, length) == 16);
static_assert(kSameShape<PoolPolicy, wire::PoolPolicy> && offsetof(PoolPolicy, policy) == 8 &&
              offsetof(PoolPolicy, pages) == 12);
static_assert(kSameShape<LayoutRun, wire::LayoutRun> && offsetof(LayoutRun, base) == 8 &&
              offsetof(LayoutRun, block_stride) == 16 && offsetof(LayoutRun, run_length) == 24);

#define KV_SAME_CODE(ours, theirs) \
  static_assert(static_cast<uint8_t>(Code::ours) == static_cast<uint8_t>(wire::Status::theirs))
KV_SAME_CODE(kOk, ok);
KV_SAME_CODE(kOkPart, ok_part);
KV_SAME_CODE(kExists, exists);
KV_SAME_CODE(kMiss, miss);
KV_SAME_CODE(kNotStored, not_stored);
KV_SAME_CODE(kTimeout, timeout);
KV_SAME_CODE(kRevoked, revoked);
KV_SAME_CODE(kAbandoned, abandoned);
KV_SAME_CODE(kBusy, busy);
KV_SAME_CODE(kIoError, io_error);
KV_SAME_CODE(kCorrupt, corrupt);
KV_SAME_CODE(kInvalid, invalid);
KV_SAME_CODE(kUnknownHandle, unknown_handle);
KV_SAME_CODE(kStaleHandle, stale_handle);
KV_SAME_CODE(kStaleNamespace, stale_namespace);
KV_SAME_CODE(kStaleMapping, stale_mapping);
KV_SAME_CODE(kExpired, expired);
KV_SAME_CODE(kDenied, denied);
KV_SAME_CODE(kOverQuota, over_quota);
KV_SAME_CODE(kMemoryFault, memory_fault);
KV_SAME_CODE(kUnavailable, unavailable);
KV_SAME_CODE(kUnsupportedVersion, unsupported_version);
KV_SAME_CODE(kDraining, draining);
KV_SAME_CODE(kInternal, internal);
static_assert(kCodesMax == static_cast<uint8_t>(wire::Status::MAX) + 1);
#undef KV_SAME_CODE

using Builder = flatbuffers::FlatBufferBuilder;

// One builder a thread keeps its memory from record to record.
Builder& fresh_builder() {
  thread_local Builder builder(8192);
  builder.Clear();
  return builder;
}

template <typename Table>
void finish(Builder& builder, flatbuffers::Offset<Table> root, Encoded& out) {
  builder.Finish(root);
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  out.assign(bytes, bytes + builder.GetSize());
}

// Empty vectors stay out of the record: absent and empty mean the same.
flatbuffers::Offset<flatbuffers::Vector<uint8_t>> bytes_vector(Builder& builder, Bytes bytes) {
  if (bytes.empty()) return 0;
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

template <typename Wire, typename Plain>
flatbuffers::Offset<flatbuffers::Vector<const Wire*>> structs_vector(Builder& builder,
                                                                     std::span<const Plain> items) {
  static_assert(sizeof(Wire) == sizeof(Plain) && alignof(Wire) == alignof(Plain));
  if (items.empty()) return 0;
  return builder.CreateVectorOfStructs(reinterpret_cast<const Wire*>(items.data()), items.size());
}

uint8_t key_bytes_field(const Keys& keys) {
  KV_CHECK(keys.key_bytes <= UINT8_MAX);
  return static_cast<uint8_t>(keys.key_bytes);
}

template <typename Wire, typename Plain>
const Wire* as_wire(const Plain& plain) {
  static_assert(sizeof(Wire) == sizeof(Plain));
  return reinterpret_cast<const Wire*>(&plain);
}

// What Put and Get share; their builders have no common base. The vectors exist before the table.
struct TransferVectors {
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> keys;
  flatbuffers::Offset<flatbuffers::Vector<const wire::Block*>> blocks;
  flatbuffers::Offset<flatbuffers::Vector<const wire::RunItem*>> run_items;
  flatbuffers::Offset<flatbuffers::Vector<const wire::Run*>> runs;
};

template <typename Request>
TransferVectors transfer_vectors(Builder& builder, const Request& r) {
  return {bytes_vector(builder, r.keys.bytes), structs_vector<wire::Block>(builder, r.items.blocks),
          structs_vector<wire::RunItem>(builder, r.items.run_items),
          structs_vector<wire::Run>(builder, r.items.runs)};
}

template <typename TableBuilder, typename Request>
void add_transfer(TableBuilder& table, const TransferVectors& v, const Request& r) {
  table.add_namespace_handle(r.namespace_handle);
  table.add_key_bytes(key_bytes_field(r.keys));
  table.add_keys(v.keys);
  table.add_blocks(v.blocks);
  table.add_run_items(v.run_items);
  table.add_runs(v.runs);
  if (r.has_coordinate) table.add_coordinate(as_wire<wire::Coordinate>(r.coordinate));
  if (r.fence.index != kNoIndex) table.add_fence(as_wire<wire::Fence>(r.fence));
}

}  // namespace

void encode(const AttachRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto identity = bytes_vector(b, r.identity), group = bytes_vector(b, r.group);
  finish(b,
         wire::CreateAttach(b, identity, group, r.group_size, r.rank,
                            as_wire<wire::Coordinate>(r.coordinate), r.description_bytes_max,
                            r.detach),
         out);
}

void encode(const RegisterRegionRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  finish(b,
         wire::CreateRegisterRegion(b, r.token, r.kind, r.bytes, r.offset, r.echo_offset, r.nonce),
         out);
}

void encode(const RegisterLayoutRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto runs = structs_vector<wire::LayoutRun>(b, r.runs);
  finish(b, wire::CreateRegisterLayout(b, r.blocks, runs), out);
}

void encode(const UnregisterRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  finish(b, wire::CreateUnregister(b, r.handle), out);
}

void encode(const LookupRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto keys = bytes_vector(b, r.keys.bytes);
  const auto pools = structs_vector<wire::PoolPolicy>(b, r.pools);
  finish(b,
         wire::CreateLookup(b, key_bytes_field(r.keys), keys, r.offset, r.total, pools, r.ticket,
                            r.lease_ms, r.prefetch),
         out);
}

void encode(const PutRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const TransferVectors vectors = transfer_vectors(b, r);
  const auto descriptions = bytes_vector(b, r.descriptions);
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> ends = 0;
  if (!r.description_ends.empty()) {
    ends = b.CreateVector(r.description_ends.data(), r.description_ends.size());
  }
  wire::PutBuilder table(b);
  add_transfer(table, vectors, r);
  table.add_durable(r.durable);
  table.add_position(r.position);
  table.add_prompt_pages(r.prompt_pages);
  table.add_descriptions(descriptions);
  table.add_description_ends(ends);
  finish(b, table.Finish(), out);
}

void encode(const GetRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const TransferVectors vectors = transfer_vectors(b, r);
  wire::GetBuilder table(b);
  add_transfer(table, vectors, r);
  table.add_lease(r.lease);
  table.add_progress(r.progress);
  finish(b, table.Finish(), out);
}

void encode(const ReleaseRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  finish(b, wire::CreateRelease(b, r.lease), out);
}

void encode(const CancelRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  finish(b, wire::CreateCancel(b, r.request), out);
}

void encode(const DeleteRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto keys = bytes_vector(b, r.keys.bytes);
  finish(b, wire::CreateDelete(b, r.namespace_handle, key_bytes_field(r.keys), keys), out);
}

void encode(const ClearRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto id = bytes_vector(b, r.namespace_id);
  finish(b, wire::CreateClear(b, r.namespace_handle, id), out);
}

void encode(const StatRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  finish(b, wire::CreateStat(b, static_cast<uint8_t>(r.what), r.offset), out);
}

void encode(const WhyRequest& r, Encoded& out) {
  Builder& b = fresh_builder();
  const auto id = bytes_vector(b, r.namespace_id), key = bytes_vector(b, r.key);
  finish(b, wire::CreateWhy(b, id, key, r.offset), out);
}

}  // namespace kvsidecar
