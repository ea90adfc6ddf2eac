// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/page_writer.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

namespace kvsidecar {
namespace {

constexpr uint64_t kBatchBytes = 32 << 20;
constexpr uint32_t kBatchPagesMax = 256;
constexpr uint64_t kTimeoutNs = 60'000'000'000;
constexpr int kBusyTries = 500, kBusyPauseMs = 20;

// Of a whole operation: after these the next one would end the same way.
bool is_the_end(const client::Outcome& outcome) {
  return !outcome.ok() && outcome.status() != KVS_TIMEOUT && outcome.status() != KVS_BUSY;
}

std::string answered(kvs_status status) {
  switch (status) {
    case KVS_NOT_STORED:
      return "the store didn't take it";
    case KVS_BUSY:
      return "the daemon had no room for it";
    case KVS_TIMEOUT:
    case KVS_ABANDONED:
      return "the daemon didn't answer in time";
    case KVS_MISS:
      return "it was gone before it could be read back";
    default:
      return "the daemon answered " + std::string(kvs_status_name(status));
  }
}

std::vector<uint32_t> wanted(const std::vector<BatchPage>& batch) {
  std::vector<uint32_t> blocks;
  for (uint32_t i = 0; i < batch.size(); ++i)
    if (batch[i].left_out.empty() && !batch[i].existed) blocks.push_back(i);
  return blocks;
}

std::vector<std::byte> keys_of(const std::vector<BatchPage>& batch,
                               const std::vector<uint32_t>& blocks) {
  std::vector<std::byte> keys;
  for (const uint32_t block : blocks)
    keys.insert(keys.end(), batch[block].key.begin(), batch[block].key.end());
  return keys;
}

}  // namespace

uint32_t batch_pages(uint64_t page_bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(kBatchBytes / page_bytes, 1, kBatchPagesMax));
}

Result<PageWriter> PageWriter::make(client::Client& client, const TargetNamespace& target,
                                    bool durable) {
  auto ns = attach_target(client, target);
  if (!ns) return ns.status();
  const uint64_t page_bytes = target.fields.page_bytes();
  const uint32_t blocks = batch_pages(page_bytes);
  auto source = client.create_memory(blocks * page_bytes);
  if (!source) return status_of(source.outcome());
  auto back = client.create_memory(blocks * page_bytes);
  if (!back) return status_of(back.outcome());
  PageWriter writer(client, *ns, std::move(*source), std::move(*back));
  writer.page_bytes_ = page_bytes;
  writer.blocks_ = blocks;
  writer.durable_ = durable;
  if (Status status = writer.lay_out(target); !status.ok()) return status;
  return writer;
}

Status PageWriter::lay_out(const TargetNamespace& target) {
  uint64_t offset = 0;
  for (const PartSpec& part : target.fields.parts) {
    for (auto* side : {&from_, &to_}) {
      const client::Memory& memory = side == &from_ ? source_ : back_;
      const kvs_layout_run run{memory.region(), offset, page_bytes_, part.bytes};
      auto layout = client_->register_layout(blocks_, {&run, 1});
      if (!layout) return status_of(layout.outcome());
      side->push_back(*layout);
    }
    const Coordinate& c = part.coordinate;
    coordinates_.push_back({c.tp, c.pp, c.cp, 0});
    offsets_.push_back(offset);
    offset += part.bytes;
  }
  return {};
}

Result<std::vector<bool>> PageWriter::there(const std::vector<PageKey>& keys) {
  client::Lookup lookup;
  const kvs_keys view{keys.data(), sizeof(PageKey), static_cast<uint32_t>(keys.size())};
  const std::initializer_list<kvs_pool_policy> pools = {{ns_, KVS_ALL_PAGES, 0}};
  lookup.keys = view;
  lookup.pools = pools;
  lookup.timeout_ns = kTimeoutNs;
  auto op = client_->lookup(lookup);
  const client::Outcome outcome = op ? op->wait() : op.outcome();
  if (!outcome) return status_of(outcome);
  std::vector<bool> there;
  for (const uint8_t place : op->places()) there.push_back(place != KVS_PLACE_MISS);
  if (there.size() != keys.size()) return Status(Code::kInternal, "a lookup told too few places");
  return there;
}

// One put of those blocks; leaves in `blocks` those that the daemon had no room for.
Status PageWriter::put_once(std::vector<BatchPage>& batch, size_t part,
                            std::vector<uint32_t>& blocks) {
  const std::vector<std::byte> keys = keys_of(batch, blocks);
  std::string descriptions;
  std::vector<uint32_t> ends;
  for (const uint32_t block : blocks) {
    descriptions += batch[block].description;
    ends.push_back(static_cast<uint32_t>(descriptions.size()));
  }
  client::Transfer put;
  put.ns = ns_;
  put.keys = client::keys(keys, sizeof(PageKey));
  put.items = client::blocks(from_[part], blocks);
  put.coordinate = coordinates_[part];
  put.durable = durable_;
  put.timeout_ns = kTimeoutNs;
  put.descriptions = std::as_bytes(std::span(descriptions));
  put.description_ends = ends;
  auto op = client_->put(put);
  const client::Outcome outcome = op ? op->wait() : op.outcome();
  if (is_the_end(outcome)) return status_of(outcome);
  const auto items = op ? op->items() : std::span<const uint8_t>();
  std::vector<uint32_t> busy;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const kvs_status status = i < items.size() ? items[i] : outcome.status();
    batch[blocks[i]].existed = status == KVS_EXISTS;
    if (status == KVS_BUSY) {
      busy.push_back(blocks[i]);
    } else if (status > KVS_EXISTS) {
      batch[blocks[i]].left_out = answered(status);
    }
  }
  blocks = busy;
  return {};
}

Status PageWriter::put_part(std::vector<BatchPage>& batch, size_t part) {
  std::vector<uint32_t> blocks = wanted(batch);
  for (int left = kBusyTries; !blocks.empty() && left > 0; --left) {
    if (left < kBusyTries) (void)poll(nullptr, 0, kBusyPauseMs);
    if (Status status = put_once(batch, part, blocks); !status.ok()) return status;
  }
  for (const uint32_t block : blocks) batch[block].left_out = answered(KVS_BUSY);
  return {};
}

Status PageWriter::get_part(std::vector<BatchPage>& batch, size_t part) {
  const std::vector<uint32_t> blocks = wanted(batch);
  if (blocks.empty()) return {};
  const std::vector<std::byte> keys = keys_of(batch, blocks);
  client::Transfer get;
  get.ns = ns_;
  get.keys = client::keys(keys, sizeof(PageKey));
  get.items = client::blocks(to_[part], blocks);
  get.coordinate = coordinates_[part];
  get.timeout_ns = kTimeoutNs;
  auto op = client_->get(get);
  const client::Outcome outcome = op ? op->wait() : op.outcome();
  if (is_the_end(outcome)) return status_of(outcome);
  const auto items = op ? op->items() : std::span<const uint8_t>();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const kvs_status status = i < items.size() ? items[i] : outcome.status();
    if (status != KVS_OK) batch[blocks[i]].left_out = answered(status);
  }
  return {};
}

void PageWriter::remove(const PageKey& key) {
  const kvs_keys view{key.data(), sizeof key, 1};
  auto op = client_->begin(
      [&](kvs_client* c, kvs_op* id) { return kvs_delete(c, ns_, &view, kTimeoutNs, id); });
  if (op) (void)op->wait();
}

void PageWriter::compare(std::vector<BatchPage>& batch) {
  for (const uint32_t block : wanted(batch)) {
    const size_t at = block * page_bytes_;
    if (std::memcmp(source_.bytes().data() + at, back_.bytes().data() + at, page_bytes_) == 0)
      continue;
    batch[block].left_out = "other bytes came back; it was removed";
    remove(batch[block].key);
  }
}

Status PageWriter::write(std::vector<BatchPage>& batch) {
  for (size_t part = 0; part < from_.size(); ++part)
    if (Status status = put_part(batch, part); !status.ok()) return status;
  // What an earlier batch has left there must not pass for what comes back.
  std::memset(back_.bytes().data(), 0, batch.size() * page_bytes_);
  for (size_t part = 0; part < to_.size(); ++part)
    if (Status status = get_part(batch, part); !status.ok()) return status;
  compare(batch);
  return {};
}

}  // namespace kvsidecar
