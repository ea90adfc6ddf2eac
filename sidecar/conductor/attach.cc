// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/attach.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/groups.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

constexpr size_t kAttachmentsMax = 4096;  // of a session, those before a clear included

Status check_salt(const Session& session, const NamespaceFields& fields) {
  // Who names none shares with all who name none: that has to be listed too, as "".
  const std::string named = fields.tenant_salt.value_or("");
  const auto& salts = session.permissions.tenant_salts;
  const bool listed = std::any_of(salts.begin(), salts.end(), [&](const std::string& salt) {
    return salt == "*" || salt == named;
  });
  if (listed || (named.empty() && salts.empty())) return {};
  if (named.empty())
    return {Code::kDenied,
            "tenant_salt: none is named, but this peer's [[allow]] entry lists salts; name one of "
            "them, or add \"\" to tenant_salts"};
  return {Code::kDenied,
          "tenant_salt: this peer's [[allow]] entry doesn't list it; add it to tenant_salts"};
}

// A detached session shares with its own group only; a session without a group with nobody, in this
// epoch or a later one.
std::array<std::byte, 16> detached_from(World& world, Bytes group) {
  std::array<std::byte, 16> own{};
  if (!group.empty()) {
    std::copy(group.begin(), group.end(), own.begin());
  } else {
    const uint64_t words[2] = {world.parts.random->next(), world.parts.random->next()};
    std::memcpy(own.data(), words, sizeof words);
  }
  return own;
}

struct Attaching {
  Attachment attachment;
  std::vector<std::byte> encoded;
  bool lasting = true;
};

Status check_page(const World& world, const NamespaceFields& fields, const SlotShape& shape) {
  const uint64_t most =
      world.parts.pool->slot_bytes_max(shape.entry_bytes, world.limits.chunk_bytes);
  if (shape.slot_bytes <= most) return {};
  return invalid("page_bytes " + std::to_string(fields.page_bytes()) +
                 " of the namespace are over " + std::to_string(most) +
                 ", which is what one chunk of the host pool has room for; raise "
                 "host_pool.chunk_bytes or make pages smaller");
}

Result<Attaching> prepare(World& world, Session& session, const AttachRequest& request) {
  if (session.attachments.size() >= kAttachmentsMax)
    return Status(Code::kOverQuota, "attaches: this session has " +
                                        std::to_string(session.attachments.size()) +
                                        "; use the handles that it has or open another session");
  Result<NamespaceFields> fields = decode_identity(request.identity);
  if (!fields.ok()) return fields.status();
  if (fields->detach.has_value())
    return invalid(
        "detach of the identity is the daemon's to set; leave it out and attach with detach = "
        "true");
  Status status = check_salt(session, *fields);
  if (!status.ok()) return status;
  Attaching attaching;
  attaching.encoded.assign(request.identity.begin(), request.identity.end());
  if (request.detach) {
    fields->detach = detached_from(world, request.group);
    Result<std::vector<std::byte>> encoded = encode_identity(*fields);
    if (!encoded.ok()) return encoded.status();
    attaching.encoded = encoded.take();
    attaching.lasting = !request.group.empty();
  }
  const bool coordinator = !request.group.empty() && request.rank == kCoordinatorRank;
  if (!coordinator && !fields->part_index(request.coordinate).has_value())
    return invalid("coordinate (tp " + std::to_string(request.coordinate.tp) + ", pp " +
                   std::to_string(request.coordinate.pp) + ", cp " +
                   std::to_string(request.coordinate.cp) +
                   ") is no part of the namespace; name one of its declared parts");
  if (request.description_bytes_max > kDescriptionBytesMax)
    return invalid("description_bytes_max " + std::to_string(request.description_bytes_max) +
                   " is over " + std::to_string(kDescriptionBytesMax));
  attaching.attachment.coordinate = request.coordinate;
  attaching.attachment.description_bytes_max = request.description_bytes_max;
  attaching.attachment.shape =
      slot_shape(fields->page_bytes(), fields->parts.size(), request.description_bytes_max);
  status = check_page(world, *fields, attaching.attachment.shape);
  if (!status.ok()) return status;
  status = join_group(world, session, request);
  if (!status.ok()) return status;
  return attaching;
}

// Harmless on one that was answered at its deadline.
void answer_error(World& world, const OpRef& op, const Status& status) {
  if (op->answered) return;
  answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
}

void finish_attach(World& world, const OpRef& op, Attachment attachment) {
  attachment.generation = attachment.space->generation;
  const uint64_t handle = world.new_handle();
  op->session->attachments[handle] = attachment;
  answer(world, *op, Code::kOk, handle, attachment.generation, {});
}

Result<NamespaceRef> cleared_namespace(World& world, Session& session,
                                       const ClearRequest& request) {
  if (request.namespace_id.empty()) {
    if (!session.permissions.clear)
      return Status(Code::kDenied, "clear: this peer's [[allow]] entry doesn't list clear");
    Result<Attachment*> attachment = find_attachment(world, session, request.namespace_handle);
    if (!attachment.ok()) return attachment.status();
    return (*attachment)->space;
  }
  if (!session.permissions.admin)
    return Status(Code::kDenied,
                  "clear by namespace id: this peer's [[allow]] entry doesn't list admin");
  Hash128 id;
  std::memcpy(&id, request.namespace_id.data(), sizeof id);
  const auto found = world.namespaces.find(id);
  if (found == world.namespaces.end())
    return Status(Code::kUnknownHandle,
                  "namespace " + to_hex(id) + " is not known; see `kvsidecar ls`");
  return found->second;
}

}  // namespace

void start_attach(World& world, const OpRef& op, const AttachRequest& request) {
  Session& session = *op->session;
  Result<Attaching> attaching = prepare(world, session, request);
  if (!attaching.ok()) return answer_error(world, op, attaching.status());
  const Result<NamespaceRef> found =
      attach_to(world, session, attaching->encoded, attaching->lasting);
  if (!found.ok()) return answer_error(world, op, found.status());
  Attachment attachment = attaching->attachment;
  attachment.space = *found;
  if (attachment.space->saved) return finish_attach(world, op, attachment);
  // Also when another attach's save is away: none may be answered before it, for only the record
  // tells whether the namespace was cleared before it was forgotten here.
  auto kept = std::make_shared<Result<uint64_t>>(Status{});
  NamespaceRecords* records = world.parts.namespaces;
  const NamespaceRef space = *found;
  world.send(make_errand(
      [records, space, kept, generation = space->generation] {
        *kept = records->save(space->id, space->encoded, generation);
      },
      [&world, op, attachment, kept] {
        if (!kept->ok()) return answer_error(world, op, kept->status());
        NamespaceInfo& known = *attachment.space;
        known.saved = known.saved || **kept >= known.generation;
        known.generation = std::max(known.generation, **kept);
        if (!op->answered) finish_attach(world, op, attachment);
      }));
}

void start_clear(World& world, const OpRef& op, const ClearRequest& request) {
  const Result<NamespaceRef> found = cleared_namespace(world, *op->session, request);
  if (!found.ok()) return answer_error(world, op, found.status());
  const NamespaceRef space = *found;
  uint64_t& highest = world.clearing[space->id];  // two clears at once take two generations
  highest = std::max(highest, space->generation) + 1;
  const uint64_t generation = highest;
  const Handle handle = request.namespace_id.empty() ? request.namespace_handle : 0;
  auto kept = std::make_shared<Result<uint64_t>>(generation);
  NamespaceRecords* records = space->lasting ? world.parts.namespaces : nullptr;
  world.send(make_errand(
      [=] {
        if (records != nullptr && !planted(Bug::kClearNotKept))
          *kept = keep_new_generation(*records, *space, generation);
      },
      [&world, op, space, handle, kept] {
        if (!kept->ok()) return answer_error(world, op, kept->status());
        if (**kept > space->generation) {
          space->generation = **kept;
          space->saved = true;
        }
        world.count.clears.add();
        world.log.event("namespace_cleared",
                        "namespace=" + to_hex(space->id) + " generation=" + std::to_string(**kept));
        if (op->answered) return;  // its session may be gone, or must not put as if it knew
        const auto own = op->session->attachments.find(handle);
        if (own != op->session->attachments.end()) own->second.generation = space->generation;
        answer(world, *op, Code::kOk, 0, space->generation, {});
      }));
}

void expire_record(World& world, const OpRef& op) {
  answer_error(world, op,
               {Code::kTimeout,
                "the state directory didn't take the namespace's record in time; "
                "look at the disk under daemon.state_dir"});
}

Result<Attachment*> find_attachment(World& world, Session& session, Handle handle) {
  const auto found = session.attachments.find(handle);
  if (found == session.attachments.end()) return world.unknown_handle("namespace", handle);
  if (found->second.generation != found->second.space->generation)
    return Status(Code::kStaleNamespace,
                  "namespace was cleared (generation " +
                      std::to_string(found->second.space->generation) + ", attached at " +
                      std::to_string(found->second.generation) + "); attach again");
  return &found->second;
}

}  // namespace kvsidecar
