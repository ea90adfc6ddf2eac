// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/deletes.h"

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/attach.h"
#include "sidecar/conductor/puts.h"
#include "sidecar/conductor/removals.h"
#include "sidecar/conductor/slots.h"

namespace kvsidecar {
namespace {

Code delete_page(World& world, const Hash128& hash) {
  // Until the store's pages are known one could turn up again after it was deleted.
  if (!world.scanned) return Code::kBusy;
  forget_parts(world, hash);
  const EntryId entry = find_page(world, hash);
  if (entry == kNoEntry) return Code::kMiss;
  PageEntry& page = world.index[entry];
  // Without a tombstone the page would come back at the next start: then it isn't deleted at all.
  if (page.segment != kNowhere &&
      !bury(world, {world.segments.segment(page.segment), page.store_slot}))
    return Code::kBusy;
  page.flags |= kDoomed;
  world.history.add(hash, Departure::kDeleted, world.now_ns);
  world.count.deletes.add();
  forget_if_nowhere(world, entry);
  return Code::kOk;
}

}  // namespace

void delete_pages(World& world, const OpRef& op, const DeleteRequest& request) {
  Session& session = *op->session;
  const Result<Attachment*> attachment = find_attachment(world, session, request.namespace_handle);
  Status status = attachment.status();
  if (!session.permissions.clear)
    status = {Code::kDenied, "delete: this peer's [[allow]] entry doesn't list clear"};
  if (!status.ok()) return answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
  session.charge(request.keys.count(), request.keys.bytes.size());
  std::vector<std::byte> codes;
  uint64_t deleted = 0;
  for (uint32_t i = 0; i < request.keys.count(); ++i) {
    const Hash128 hash =
        page_hash((*attachment)->space->id, (*attachment)->generation, request.keys[i]);
    const Code code = delete_page(world, hash);
    deleted += code == Code::kOk ? 1 : 0;
    codes.push_back(static_cast<std::byte>(code));
  }
  op->items.resize(codes.size());
  answer(world, *op, Code::kOk, 0, deleted, codes);
}

}  // namespace kvsidecar
