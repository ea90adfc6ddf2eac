// SPDX-License-Identifier: Apache-2.0
// The namespaces that are known, and their entries in the table. Each is counted in the account
// that first attached to it. One that nothing uses (no attachment, no request, no page in host
// memory or store) is forgotten when an account or the table is full. A generation that a clear
// made is never lost: its record stays in the state directory and is read again before the next
// attach is answered; records of namespaces that were never cleared go. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

using NamespaceRef = std::shared_ptr<NamespaceInfo>;

// From the state directory: beyond every limit, for its generation must be known before the store's
// pages are looked at. kInvalid when the form is not canonical.
Result<NamespaceRef> restore_record(World& world, Bytes encoded, uint64_t generation);
// From a segment's superblock: its generation becomes the highest seen. kOverQuota beyond the
// limit.
Result<NamespaceRef> find_stored(World& world, Bytes encoded, uint64_t generation);
// For an attach. `lasting`: false when no other session or epoch can name it, so that it needs no
// record. kOverQuota beyond the account's limit or the table's.
Result<NamespaceRef> attach_to(World& world, const Session& session, Bytes encoded, bool lasting);

// On a reaper: makes `generation` the one on record, or the next one after what the record has.
// Returns what it is now.
Result<uint64_t> keep_new_generation(NamespaceRecords& records, const NamespaceInfo& space,
                                     uint64_t generation);

// The index entry of a page that is in none yet; its end is forget_if_nowhere (slots.h).
EntryId add_page_entry(World& world, const Hash128& page, uint64_t digest, NamespaceInfo& space);
// For every page that comes into the index, of whatever source: what kind it is.
void note_origin(PageEntry& page, NamespaceInfo& space, uint64_t generation, bool imported);
// Null: no namespace has that number.
NamespaceInfo* namespace_of(const World& world, const PageEntry& page);

}  // namespace kvsidecar
