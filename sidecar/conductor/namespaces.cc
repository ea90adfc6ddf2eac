// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/namespaces.h"

#include <algorithm>

namespace kvsidecar {
namespace {

// Until the store's pages are known one of a cleared generation could turn up, and would bring its
// generation back if the higher one were not known here.
bool generation_is_safe(const World& world, const NamespaceInfo& space) {
  if (!space.lasting || space.generation == 1) return true;
  return space.saved && world.scanned && world.parts.namespaces != nullptr;
}

void remove_records(World& world, std::vector<Hash128> ids) {
  NamespaceRecords* records = world.parts.namespaces;
  if (ids.empty() || records == nullptr) return;
  // Reapers do errands in order: a later attach's record is written after this.
  world.send(make_errand(
      [records, gone = std::move(ids)] {
        for (const Hash128& id : gone) records->forget(id);
      },
      [] {}));
}

// All that nothing uses, of one account or of all (kNobody).
void forget_unused(World& world, uint32_t account) {
  std::vector<Hash128> records;
  for (auto it = world.namespaces.begin(); it != world.namespaces.end();) {
    const NamespaceInfo& space = *it->second;
    const bool used = it->second.use_count() > 1 || space.pages != 0;
    const bool asked = account == kNobody || space.account == account;
    if (used || !asked || !generation_is_safe(world, space)) {
      ++it;
      continue;
    }
    if (space.lasting && space.generation == 1) records.push_back(space.id);
    if (space.account != kNobody) --world.accounts[space.account].namespaces;
    world.namespaces_by_number[space.number] = nullptr;
    world.namespace_numbers_free.push_back(space.number);
    world.writers.erase(space.number);
    world.clearing.erase(space.id);
    world.count.namespaces_forgotten.add();
    it = world.namespaces.erase(it);
  }
  remove_records(world, std::move(records));
}

Status make_table_room(World& world) {
  const auto full = [&world] { return world.namespaces.size() >= world.limits.namespaces_max; };
  if (full()) forget_unused(world, kNobody);
  if (!full()) return {};
  return {Code::kOverQuota, "namespaces: " + std::to_string(world.namespaces.size()) +
                                " are in use; raise limits.namespaces_max"};
}

Status make_account_room(World& world, const Permissions& allowed) {
  const auto full = [&] {
    return allowed.namespaces_max != 0 &&
           world.accounts[allowed.entry].namespaces >= allowed.namespaces_max;
  };
  if (full()) forget_unused(world, allowed.entry);
  if (!full()) return {};
  return {Code::kOverQuota,
          "namespaces: this peer's [[allow]] entry has " +
              std::to_string(world.accounts[allowed.entry].namespaces) +
              " in use; end sessions, delete pages, or raise its namespaces_max"};
}

Result<NamespaceRef> make(World& world, Bytes encoded, uint64_t generation) {
  Result<NamespaceFields> fields = decode_identity(encoded);
  if (!fields.ok()) return fields.status();
  auto info = std::make_shared<NamespaceInfo>();
  info->id = namespace_id(encoded);
  info->encoded.assign(encoded.begin(), encoded.end());
  info->fields = fields.take();
  info->page_bytes = info->fields.page_bytes();
  uint64_t offset = 0;
  for (const PartSpec& part : info->fields.parts) {
    info->part_offsets.push_back(offset);
    offset += part.bytes;
  }
  info->generation = std::max<uint64_t>(1, generation);
  if (world.namespace_numbers_free.empty()) {
    info->number = static_cast<uint32_t>(world.namespaces_by_number.size());
    world.namespaces_by_number.push_back(info.get());
  } else {
    info->number = world.namespace_numbers_free.back();
    world.namespace_numbers_free.pop_back();
    world.namespaces_by_number[info->number] = info.get();
  }
  world.namespaces.emplace(info->id, info);
  return info;
}

NamespaceRef find(const World& world, Bytes encoded) {
  const auto found = world.namespaces.find(namespace_id(encoded));
  return found != world.namespaces.end() ? found->second : nullptr;
}

}  // namespace

Result<NamespaceRef> restore_record(World& world, Bytes encoded, uint64_t generation) {
  if (const NamespaceRef known = find(world, encoded)) {
    known->generation = std::max(known->generation, generation);
    return known;
  }
  Result<NamespaceRef> made = make(world, encoded, generation);
  if (made.ok()) (*made)->saved = true;
  return made;
}

Result<NamespaceRef> find_stored(World& world, Bytes encoded, uint64_t generation) {
  if (const NamespaceRef known = find(world, encoded)) {
    if (generation <= known->generation) return known;
    known->generation = generation;
    known->saved = false;
    return known;
  }
  if (Status status = make_table_room(world); !status.ok()) return status;
  return make(world, encoded, generation);
}

Result<NamespaceRef> attach_to(World& world, const Session& session, Bytes encoded, bool lasting) {
  NamespaceRef space = find(world, encoded);
  if (space != nullptr && space->account != kNobody) return space;
  const uint32_t account = session.permissions.entry;
  if (Status status = make_account_room(world, session.permissions); !status.ok()) return status;
  if (space == nullptr) {
    if (Status status = make_table_room(world); !status.ok()) return status;
    Result<NamespaceRef> made = make(world, encoded, 1);
    if (!made.ok()) return made;
    space = made.take();
    space->lasting = lasting;
    space->saved = !lasting || world.parts.namespaces == nullptr;
  }
  space->account = account;
  ++world.accounts[account].namespaces;
  return space;
}

Result<uint64_t> keep_new_generation(NamespaceRecords& records, const NamespaceInfo& space,
                                     uint64_t generation) {
  Result<uint64_t> kept = records.save(space.id, space.encoded, generation);
  // The record is ahead of what was known here: its number is used up.
  if (kept.ok() && *kept > generation) return records.save(space.id, space.encoded, *kept + 1);
  return kept;
}

EntryId add_page_entry(World& world, const Hash128& page, uint64_t digest, NamespaceInfo& space) {
  const EntryId entry = world.index.insert(page);
  world.index[entry].digest = digest;
  world.index[entry].namespace_number = space.number;
  ++space.pages;
  return entry;
}

void note_origin(PageEntry& page, NamespaceInfo& space, uint64_t generation, bool imported) {
  if (imported) {
    page.flags |= kImported;
  } else {
    space.own_generation = std::max(space.own_generation, generation);
  }
}

NamespaceInfo* namespace_of(const World& world, const PageEntry& page) {
  if (page.namespace_number >= world.namespaces_by_number.size()) return nullptr;
  return world.namespaces_by_number[page.namespace_number];
}

}  // namespace kvsidecar
