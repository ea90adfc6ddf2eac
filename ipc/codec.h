// SPDX-License-Identifier: Apache-2.0
// The trust boundary: FlatBuffers <-> plain structs. decode() verifies (depth 8, tables 64, size
// cap before the verifier is made) and checks everything that can be checked without the daemon's
// state: counts, key lengths, sums without overflow. It must be given a private copy, never shared
// memory. Errors are Code::kInvalid with a sentence. Pure; any thread.
#pragma once
#include <vector>

#include "ipc/layout.h"
#include "ipc/requests.h"
#include "ipc/result.h"

namespace kvsidecar {

// A finished record, ready for SubmissionProducer. Reused by the caller to avoid allocations.
using Encoded = std::vector<std::byte>;

void encode(const AttachRequest&, Encoded& out);
void encode(const RegisterRegionRequest&, Encoded& out);
void encode(const RegisterLayoutRequest&, Encoded& out);
void encode(const UnregisterRequest&, Encoded& out);
void encode(const LookupRequest&, Encoded& out);
void encode(const PutRequest&, Encoded& out);
void encode(const GetRequest&, Encoded& out);
void encode(const ReleaseRequest&, Encoded& out);
void encode(const CancelRequest&, Encoded& out);
void encode(const DeleteRequest&, Encoded& out);
void encode(const ClearRequest&, Encoded& out);
void encode(const StatRequest&, Encoded& out);
void encode(const WhyRequest&, Encoded& out);

// `record` must be 16-byte aligned.
Result<AttachRequest> decode_attach(Bytes record);
Result<RegisterRegionRequest> decode_register_region(Bytes record);
Result<RegisterLayoutRequest> decode_register_layout(Bytes record);
Result<UnregisterRequest> decode_unregister(Bytes record);
Result<LookupRequest> decode_lookup(Bytes record);
Result<PutRequest> decode_put(Bytes record);
Result<GetRequest> decode_get(Bytes record);
Result<ReleaseRequest> decode_release(Bytes record);
Result<CancelRequest> decode_cancel(Bytes record);
Result<DeleteRequest> decode_delete(Bytes record);
Result<ClearRequest> decode_clear(Bytes record);
Result<StatRequest> decode_stat(Bytes record);
Result<WhyRequest> decode_why(Bytes record);

}  // namespace kvsidecar
