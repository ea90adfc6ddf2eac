// SPDX-License-Identifier: Apache-2.0
// The end of items and of requests: claims of items that were never copied, counting, completions.
// Every admitted request gets exactly one answer; its cells were reserved when it was admitted.
// Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// The item's end. Moves a claim that is still QUEUED to SKIPPED (REVOKED for kTimeout); unpins;
// answers the request when this was its last item. Harmless on a settled item.
void settle(World& world, const ItemRef& ref, Code code);
void settle_all(World& world, const OpRef& op, Code code);  // every unsettled item

// A request's single-cell answer. `text` is the payload.
void answer(World& world, Operation& op, Code status, uint64_t handle, uint64_t value,
            Bytes payload);
void answer_at_once(World& world, Session& session, const RecordHead& head);  // OK, nothing more
void refuse(World& world, Session& session, const RecordHead& head, uint64_t received_ns,
            const Status& status, uint32_t cells = 1);
void push_cell(World& world, Session& session, const CompletionHead& head, Bytes payload);
// Makes this turn's completions visible and wakes who sleeps.
void publish_all(World& world);

inline Bytes text_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace kvsidecar
