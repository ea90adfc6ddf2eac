// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "clients/cli/bench/rig.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

Status status_of(const client::Outcome& outcome) {
  return {static_cast<Code>(outcome.status()), outcome.text()};
}

// The finalizer of splitmix64: a bijection, so numbers never collide.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Runs of a block: run r of block b lies at r * blocks * run_bytes + b * run_bytes, as the tensors
// of an engine's layers do.
std::vector<kvs_layout_run> runs_of(const EngineShape& shape, kvs_region region) {
  const uint64_t run = shape.run_bytes == 0 ? shape.page_bytes : shape.run_bytes;
  std::vector<kvs_layout_run> runs(shape.page_bytes / run);
  for (size_t r = 0; r < runs.size(); ++r) runs[r] = {region, r * shape.blocks * run, run, run};
  return runs;
}

}  // namespace

std::vector<std::byte> bench_keys(uint64_t number, uint32_t count) {
  std::vector<std::byte> keys(size_t{count} * kBenchKeyBytes);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t words[2] = {mixed(number + i + 1), number + i};
    std::memcpy(keys.data() + size_t{i} * kBenchKeyBytes, words, kBenchKeyBytes);
  }
  return keys;
}

Result<std::unique_ptr<BenchEngine>> BenchEngine::attach(const std::string& socket,
                                                         const EngineShape& shape) {
  kvs_options options{};
  options.socket_path = socket.c_str();
  options.name = "bench";
  options.spin_ns = shape.spin_ns;
  options.no_reconnect = 1;
  options.default_timeout_ns = shape.timeout_ns;
  auto client = client::Client::open(options);
  if (!client) return status_of(client.outcome());
  std::unique_ptr<BenchEngine> engine(new BenchEngine(std::move(*client), shape));
  if (Status prepared = engine->prepare(); !prepared.ok()) return prepared;
  return engine;
}

Status BenchEngine::prepare() {
  auto memory = client_.create_memory(uint64_t{shape_.blocks} * shape_.page_bytes);
  if (!memory) return status_of(memory.outcome());
  memory_.emplace(std::move(*memory));
  std::memset(memory_->bytes().data(), 0x5a, memory_->size());
  const std::vector<kvs_layout_run> runs = runs_of(shape_, memory_->region());
  auto layout = client_.register_layout(shape_.blocks, runs);
  if (!layout) return status_of(layout.outcome());
  layout_ = *layout;
  kvs_part part{};
  part.bytes = shape_.page_bytes;
  kvs_namespace_fields fields{};
  fields.model = "bench";
  fields.revision = "1";
  fields.dtype = "uint8";
  fields.quantization = "none";
  fields.layout = shape_.run_bytes == 0 ? "flat" : "runs";
  fields.pool = "kv";
  fields.draft_model = "none";
  fields.tokens_per_page = 16;
  fields.tp_size = fields.pp_size = fields.cp_size = fields.slices = 1;
  fields.parts = &part;
  fields.part_count = 1;
  auto space = client_.attach(fields);
  if (!space) return status_of(space.outcome());
  space_ = *space;
  numbers_.resize(shape_.blocks);
  std::iota(numbers_.begin(), numbers_.end(), 0u);
  return {};
}

std::byte* BenchEngine::block(uint32_t number) {
  return memory_->bytes().data() + uint64_t{number} * shape_.page_bytes;
}

void BenchEngine::shuffle_blocks() { std::shuffle(numbers_.begin(), numbers_.end(), random_); }

Result<double> BenchEngine::transfer(bool is_put, uint64_t number, uint32_t count) {
  const std::vector<std::byte> keys = bench_keys(number, count);
  const client::Transfer what{.ns = space_,
                              .keys = client::keys(keys, kBenchKeyBytes),
                              .items = client::blocks(layout_, {numbers_.data(), count})};
  const uint64_t begin = monotonic_ns();
  auto op = is_put ? client_.put(what) : client_.get(what);
  if (!op) return status_of(op.outcome());
  const client::Outcome outcome = op->wait();
  const auto spent = static_cast<double>(monotonic_ns() - begin);
  if (!outcome) return status_of(outcome);
  for (const uint8_t item : op->items())
    if (item != KVS_OK && !(is_put && item == KVS_EXISTS))
      return Status(static_cast<Code>(item), std::string(is_put ? "a put" : "a get") +
                                                 " of the bench ended with " +
                                                 kvs_status_name(item));
  return spent;
}

Result<double> BenchEngine::put(uint64_t number, uint32_t count) {
  return transfer(true, number, count);
}
Result<double> BenchEngine::get(uint64_t number, uint32_t count) {
  return transfer(false, number, count);
}

Result<double> BenchEngine::lookup(const std::vector<std::byte>& keys, uint64_t found) {
  const client::Lookup what{.keys = client::keys(keys, kBenchKeyBytes), .pools = {{space_, 0, 0}}};
  const uint64_t begin = monotonic_ns();
  auto op = client_.lookup(what);
  if (!op) return status_of(op.outcome());
  const client::Outcome outcome = op->wait();
  const auto spent = static_cast<double>(monotonic_ns() - begin);
  if (!outcome) return status_of(outcome);
  if (op->longest() != found)
    return Status(Code::kMiss, "a lookup of the bench found " + std::to_string(op->longest()) +
                                   " pages instead of " + std::to_string(found));
  return spent;
}

Result<double> BenchEngine::empty_request() {
  const uint64_t begin = monotonic_ns();
  auto op = client_.begin([](kvs_client* c, kvs_op* id) { return kvs_noop(c, 0, id); });
  if (!op) return status_of(op.outcome());
  const client::Outcome outcome = op->wait();
  const auto spent = static_cast<double>(monotonic_ns() - begin);
  if (!outcome) return status_of(outcome);
  return spent;
}

Status BenchEngine::fill(uint64_t number, uint64_t count) {
  while (count > 0) {
    const auto batch = static_cast<uint32_t>(std::min<uint64_t>(count, shape_.blocks));
    if (auto spent = put(number, batch); !spent) return spent.status();
    number += batch;
    count -= batch;
  }
  return {};
}

std::optional<std::string> BenchEngine::stat() {
  auto op =
      client_.begin([](kvs_client* c, kvs_op* id) { return kvs_stat(c, KVS_STAT_STATUS, 0, id); });
  if (!op || !op->wait()) return std::nullopt;
  return std::string(op->text());
}

}  // namespace kvsidecar
