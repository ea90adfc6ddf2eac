// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/model.h"

#include <algorithm>

namespace kvsidecar::sim {
namespace {

std::string text_of(PageName page, uint32_t part) {
  return "space " + std::to_string(page.space) + " key " + std::to_string(page.key) + " part " +
         std::to_string(part);
}

}  // namespace

uint64_t Model::begin_write(PageName page, uint32_t part, uint64_t generation) {
  const uint64_t id = new_stamp();
  Write& write = writes_[id];
  write.page = page;
  write.part = part;
  write.generations.low = generation;
  writes_of_[{page, part}].push_back(id);
  return id;
}

std::string Model::end_write(uint64_t id, bool counted, uint64_t generation, uint64_t now) {
  Write& write = writes_.at(id);
  if (write.state != State::kOpen) return {};
  write.state = counted ? State::kCounted : State::kVoid;
  write.generations.high = generation;
  write.counted_at = now;
  if (!counted && write.seen)
    return text_of(write.page, write.part) + ": bytes came out of a put that did not count";
  return {};
}

std::string Model::check_got(PageName page, uint32_t part, Generations generations,
                             uint64_t sent_at, uint64_t id) {
  const std::string name = text_of(page, part) + ": ";
  const auto found = writes_.find(id);
  if (found == writes_.end()) return name + "bytes that nobody put, stamp " + std::to_string(id);
  Write& write = found->second;
  if (write.page != page || write.part != part)
    return name + "bytes of " + text_of(write.page, write.part);
  if (write.state == State::kVoid) return name + "bytes of a put that did not count";
  if (write.generations.low > generations.high || write.generations.high < generations.low)
    return name + "bytes of generation " + std::to_string(write.generations.low) +
           " for a get of " + std::to_string(generations.low);
  if (write.deleted_at != 0 && sent_at > write.deleted_at)
    return name + "bytes that were deleted before the get began";
  write.seen = true;
  return {};
}

void Model::page_complete(PageName page, uint64_t generation, const Completion& completion) {
  const auto deletes = deletes_.find(page);
  if (deletes != deletes_.end() &&
      (deletes->second.open > 0 || deletes->second.last_sent_or_answered >= completion.sent_at))
    return;
  Page& known = pages_[{page, generation}];
  if (known.complete_at == 0) known.complete_at = completion.now;
  if (completion.fresh && known.fresh_at == 0) known.fresh_at = completion.now;
  if (completion.durable && known.durable_at == 0) known.durable_at = completion.now;
  if (completion.fresh && !completion.durable) known.durable_at = 0;
}

void Model::page_perhaps_fresh(PageName page, uint64_t generation) {
  pages_[{page, generation}].durable_at = 0;
}

bool Model::must_be_found(PageName page, uint64_t generation, uint64_t lookup_sent_at,
                          bool store_counts) const {
  const auto found = pages_.find({page, generation});
  if (found == pages_.end()) return false;
  const uint64_t since = store_counts ? found->second.complete_at : found->second.fresh_at;
  return since != 0 && since < lookup_sent_at;
}

bool Model::must_be_stored(PageName page, uint64_t generation, uint64_t lookup_sent_at) const {
  const auto found = pages_.find({page, generation});
  return found != pages_.end() && found->second.durable_at != 0 &&
         found->second.durable_at < lookup_sent_at;
}

void Model::delete_sent(PageName page, uint64_t now) {
  Deletes& deletes = deletes_[page];
  ++deletes.open;
  deletes.last_sent_or_answered = now;
  for (auto at = pages_.lower_bound({page, 0}); at != pages_.end() && at->first.first == page; ++at)
    at->second = {};
}

void Model::delete_answered(PageName page, Generations generations, bool deleted, uint64_t sent_at,
                            uint64_t now) {
  Deletes& deletes = deletes_[page];
  --deletes.open;
  deletes.last_sent_or_answered = now;
  if (!deleted) return;
  for (auto at = writes_of_.lower_bound({page, 0});
       at != writes_of_.end() && at->first.first == page; ++at)
    for (const uint64_t id : at->second) {
      Write& write = writes_.at(id);
      // Only what surely went in before, and surely in this generation.
      const bool before = write.state == State::kCounted && write.counted_at < sent_at;
      const bool same = generations.low == generations.high &&
                        write.generations.low == generations.low &&
                        write.generations.high == generations.low;
      if (before && same && write.deleted_at == 0) write.deleted_at = now;
    }
}

bool Model::deleted_since(PageName page, uint64_t event) const {
  const auto deletes = deletes_.find(page);
  return deletes != deletes_.end() &&
         (deletes->second.open > 0 || deletes->second.last_sent_or_answered >= event);
}

void Model::generation_seen(int space, uint64_t generation) {
  generations_[space] = std::max(generations_[space], generation);
}

uint64_t Model::generation(int space) const {
  const auto found = generations_.find(space);
  return found == generations_.end() ? 0 : found->second;
}

void Model::daemon_gone(bool memory_lost) {
  for (auto& [id, write] : writes_) write.deleted_at = 0;
  for (auto& [page, deletes] : deletes_) deletes.open = 0;
  if (memory_lost)
    for (auto& [name, page] : pages_) {
      page.complete_at = 0;
      page.fresh_at = 0;
    }
}

}  // namespace kvsidecar::sim
