// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/admin.h"

#include <nlohmann/json.hpp>

#include "ipc/page_origin.h"
#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/slots.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

constexpr size_t kPlainMissesMax = 64;  // namespaces that `why` lists without anything to say
constexpr size_t kSliceBytes = kCompletionCellBytes - sizeof(CompletionHead);

// Names come from clients: bytes that aren't UTF-8 are replaced, never thrown at.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void answer_slice(World& world, Operation& op, uint32_t offset) {
  const std::string& text = op.session->text;
  if (offset > text.size()) {
    const std::string wrong = "offset " + std::to_string(offset) + " is beyond the answer's " +
                              std::to_string(text.size()) + " bytes";
    return answer(world, op, Code::kInvalid, 0, 0, text_bytes(wrong));
  }
  answer(world, op, Code::kOk, 0, text.size(),
         text_bytes(text).subspan(offset, std::min(kSliceBytes, text.size() - offset)));
}

std::string key_hex(Bytes key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : key) {
    hex += kDigits[static_cast<unsigned>(b) >> 4];
    hex += kDigits[static_cast<unsigned>(b) & 15];
  }
  return hex;
}

// All that tells one namespace from another: an operator clears by what it says.
Json describe(const NamespaceInfo& space) {
  const NamespaceFields& fields = space.fields;
  Json extra = Json::object();
  for (const auto& [name, value] : fields.extra) extra[name] = value;
  return {{"namespace", to_hex(space.id)},
          {"generation", space.generation},
          {"model", fields.model},
          {"revision", fields.revision},
          {"pool", fields.pool},
          {"dtype", fields.dtype},
          {"quantization", fields.quantization},
          {"layout", fields.layout},
          {"draft_model", fields.draft_model},
          {"adapter", fields.adapter.value_or("")},
          {"tenant_salt", fields.tenant_salt.value_or("")},
          {"key_scheme", fields.key_scheme.value_or("")},
          {"tokens_per_page", fields.tokens_per_page},
          {"tp_size", fields.tp_size},
          {"pp_size", fields.pp_size},
          {"cp_size", fields.cp_size},
          {"slice", fields.slice},
          {"slices", fields.slices},
          {"detached", fields.detach.has_value()},
          {"extra", extra},
          {"page_bytes", space.page_bytes},
          {"parts", fields.parts.size()},
          {"identity", key_hex(space.encoded)},
          {"has_own_pages", space.own_generation == space.generation}};
}

std::string namespaces_json(const World& world) {
  std::vector<uint64_t> host(world.namespaces_by_number.size() + 1), pages(host.size());
  for_bound_slots(world, [&](SlotId, EntryId entry) {
    const uint32_t number = world.index[entry].namespace_number;
    ++host[std::min<size_t>(number, host.size() - 1)];
  });
  Json list = Json::array();
  for (const NamespaceInfo* space : world.namespaces_by_number) {
    if (space == nullptr) continue;
    Json one = describe(*space);
    one["pages_host"] = host[space->number];
    list.push_back(std::move(one));
  }
  return dump({{"namespaces", list}});
}

std::string sessions_json(const World& world) {
  Json list = Json::array();
  for (const auto& [id, session] : world.sessions)
    list.push_back({{"session", id},
                    {"name", session->name},
                    {"pid", session->pid},
                    {"uid", session->uid},
                    {"operations", session->ops.size()},
                    {"bytes_in_flight", session->bytes_in_flight},
                    {"regions", session->regions.size()},
                    {"region_bytes", session->region_bytes},
                    {"layouts", session->layouts.size()},
                    {"namespaces", session->attachments.size()},
                    {"lease_pages", session->lease_pages},
                    {"ended", session->ended}});
  return dump({{"sessions", list}});
}

Json why_here(const World& world, const NamespaceInfo& space, Bytes key) {
  const Hash128 hash = page_hash(space.id, space.generation, key);
  Json one = {{"namespace", to_hex(space.id)},
              {"model", space.fields.model},
              {"pool", space.fields.pool},
              {"generation", space.generation},
              {"page", to_hex(hash)}};
  const EntryId entry = find_page(world, hash);
  if (entry != kNoEntry) {
    const PageEntry& page = world.index[entry];
    one["place"] = page.host_slot != kNowhere ? "host" : "store";
    one["stored"] = page.segment != kNowhere;
    one["pins"] = page.pins;
    one["write_queued"] = (page.flags & (kWriteQueued | kWriting)) != 0;
    one["verified"] = (page.flags & kUnverified) == 0;
    one["digest"] = page.digest;
    one["why"] = "complete and visible";
    one["imported"] = (page.flags & kImported) != 0;
    if (page.host_slot == kNowhere) return one;
    const Result<PageRecord> record = world.parts.pool->record(page.host_slot);
    if (record.ok()) one["origin"] = std::string(origin_of(record->description));
    return one;
  }
  one["place"] = "miss";
  const auto filling = world.fillings.find(hash);
  if (filling != world.fillings.end()) {
    one["why"] = "incomplete: " + std::to_string(filling->second->done) + " of " +
                 std::to_string(filling->second->parts.size()) + " parts are in";
    return one;
  }
  for (uint64_t older = space.generation, left = 8; older-- > 1 && left-- > 0;) {
    if (find_page(world, page_hash(space.id, older, key)) == kNoEntry) continue;
    one["why"] = "cleared: it is of generation " + std::to_string(older);
    return one;
  }
  const History::Event event = world.history.find(hash);
  one["why"] = std::string(departure_text(event.why));
  if (event.why != Departure::kNone)
    one["seconds_ago"] = (world.now_ns - event.at_ns) / 1'000'000'000;
  return one;
}

// Where many namespaces are known, those that never heard of the page are left out.
bool something_to_say(const World& world, const NamespaceInfo& space, Bytes key) {
  const Hash128 hash = page_hash(space.id, space.generation, key);
  return find_page(world, hash) != kNoEntry || world.fillings.count(hash) != 0;
}

Json pool_json(const HostPool::Usage& pool) {
  return {{"bytes", pool.bytes},
          {"spans", pool.spans},
          {"spans_empty", pool.spans_empty},
          {"slots_full", pool.slots_full},
          {"slots_filling", pool.slots_filling},
          {"slots_quarantined", pool.slots_quarantined},
          {"slots_free", pool.slots_free},
          {"page_bytes", pool.page_bytes},
          {"table_bytes", pool.table_bytes},
          {"rounding_bytes", pool.rounding_bytes},
          {"stranded_bytes", pool.stranded_bytes}};
}

}  // namespace

Gauges gauges_of(const World& world) {
  Gauges g;
  g.pool = world.parts.pool->usage();
  g.pages_indexed = world.index.size();
  g.index_bytes = world.index.memory_bytes();
  g.sessions = world.sessions.size();
  g.leases = world.leases.size();
  g.lease_pages = world.lease_pages;
  for (const auto& [id, session] : world.sessions) g.operations += session->ops.size();
  g.fillings = world.fillings.size();
  g.fetches = world.fetches.size();
  g.write_behind_bytes = world.write_queue_bytes;
  g.write_behind_pages = world.writes_queued;
  g.store_bytes = world.parts.store != nullptr ? world.parts.store->used_bytes() : 0;
  g.store_capacity_bytes = world.limits.store_capacity_bytes;
  g.segments = world.segments.segments();
  g.namespaces = world.namespaces.size();
  g.groups = world.groups.size();
  g.scanned = world.scanned;
  g.draining = world.draining;
  return g;
}

std::string status_json(const World& world) {
  const Gauges g = gauges_of(world);
  Json counters;
#define X(name, help) counters[#name] = world.count.name.value();
  KV_COUNTERS(X)
#undef X
  Json json = {{"epoch", world.epoch},
               {"draining", world.draining},
               {"scanned", g.scanned},
               {"device", world.parts.device->name()},
               {"store", world.parts.store != nullptr ? world.parts.store->describe() : "none"},
               {"host_pool", pool_json(g.pool)},
               {"index", {{"pages", g.pages_indexed}, {"bytes", g.index_bytes}}},
               {"sessions", g.sessions},
               {"groups", g.groups},
               {"namespaces", g.namespaces},
               {"leases", {{"count", g.leases}, {"pages", g.lease_pages}}},
               {"operations", g.operations},
               {"fillings", g.fillings},
               {"fetches", g.fetches},
               {"write_behind", {{"bytes", g.write_behind_bytes}, {"pages", g.write_behind_pages}}},
               {"segments", {{"count", g.segments}, {"bytes", g.store_bytes}}},
               {"store_capacity_bytes", world.limits.store_capacity_bytes},
               {"counters", counters}};
  return dump(json);
}

void serve_stat(World& world, const OpRef& op, const StatRequest& request) {
  Session& session = *op->session;
  const bool status = request.what == StatWhat::kStatus;
  if (!session.permissions.admin && !status) {
    const std::string denied =
        "namespaces, sessions and drain need admin, which this peer's [[allow]] entry doesn't "
        "list; add it to permissions";
    return answer(world, *op, Code::kDenied, 0, 0, text_bytes(denied));
  }
  if (request.what == StatWhat::kDrain && request.offset == 0) {
    world.draining = true;
    world.log.event("drain", "by session=" + std::to_string(session.id));
  }
  if (request.offset == 0) {
    switch (request.what) {
      case StatWhat::kStatus:
      case StatWhat::kDrain:
        session.text = status_json(world);
        break;
      case StatWhat::kNamespaces:
        session.text = namespaces_json(world);
        break;
      case StatWhat::kSessions:
        session.text = sessions_json(world);
        break;
    }
  }
  answer_slice(world, *op, request.offset);
}

void serve_why(World& world, const OpRef& op, const WhyRequest& request) {
  if (!op->session->permissions.read) {
    const std::string denied = "why: this peer's [[allow]] entry doesn't list read";
    return answer(world, *op, Code::kDenied, 0, 0, text_bytes(denied));
  }
  if (request.offset == 0) {
    Json list = Json::array();
    const bool few = world.namespaces.size() <= kPlainMissesMax;
    for (const NamespaceInfo* space : world.namespaces_by_number) {
      if (space == nullptr) continue;
      Hash128 asked;
      if (!request.namespace_id.empty())
        std::memcpy(&asked, request.namespace_id.data(), sizeof asked);
      const bool named = !request.namespace_id.empty() && asked == space->id;
      const bool any =
          request.namespace_id.empty() && (few || something_to_say(world, *space, request.key));
      if (named || any) list.push_back(why_here(world, *space, request.key));
    }
    op->session->text = dump({{"key", key_hex(request.key)}, {"answers", list}});
  }
  answer_slice(world, *op, request.offset);
}

}  // namespace kvsidecar
