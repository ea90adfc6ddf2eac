// SPDX-License-Identifier: Apache-2.0
#include "tests/support/engine.h"

#include <unistd.h>

#include <cstring>

namespace kvsidecar::testing {
namespace {

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().text().c_str());
  KV_CHECK(result.ok());
  return result.take();
}

Keys keys_of(const std::vector<uint64_t>& numbers, std::vector<std::byte>& storage) {
  storage.clear();
  for (const uint64_t number : numbers) {
    const std::vector<std::byte> key = key_of(number);
    storage.insert(storage.end(), key.begin(), key.end());
  }
  return {Bytes(storage), 32};
}

uint64_t word_of(uint64_t key, uint64_t part, uint64_t version, uint64_t index) {
  uint64_t z = key * 0x9e3779b97f4a7c15ull + part * 0xd1b54a32d192ed03ull +
               version * 0x2545f4914f6cdd1dull + index;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 27);
}

}  // namespace

NamespaceFields fields_of(uint64_t part_bytes, uint16_t parts, const std::string& pool) {
  NamespaceFields fields;
  fields.model = "test-model";
  fields.revision = "r1";
  fields.dtype = "bf16";
  fields.quantization = "none";
  fields.layout = "block";
  fields.pool = pool;
  fields.draft_model = "none";
  fields.tokens_per_page = 16;
  fields.tp_size = parts;
  fields.pp_size = fields.cp_size = 1;
  fields.slices = 1;
  for (uint16_t tp = 0; tp < parts; ++tp) fields.parts.push_back({{tp, 0, 0, 0}, part_bytes});
  return fields;
}

std::vector<std::byte> key_of(uint64_t number, size_t bytes) {
  std::vector<std::byte> key(bytes);
  for (size_t i = 0; i < bytes; ++i) key[i] = static_cast<std::byte>(number >> (8 * (i % 8)));
  return key;
}

void fill_page(std::span<std::byte> part, uint64_t key, uint64_t part_number, uint64_t version) {
  for (size_t i = 0; i < part.size(); i += 8) {
    const uint64_t word = word_of(key, part_number, version, i);
    std::memcpy(part.data() + i, &word, std::min<size_t>(8, part.size() - i));
  }
}

bool holds_page(std::span<const std::byte> part, uint64_t key, uint64_t part_number,
                uint64_t version) {
  for (size_t i = 0; i < part.size(); i += 8) {
    const uint64_t word = word_of(key, part_number, version, i);
    if (std::memcmp(part.data() + i, &word, std::min<size_t>(8, part.size() - i)) != 0)
      return false;
  }
  return true;
}

Permissions everything() {
  Permissions permissions;
  permissions.read = permissions.put = permissions.clear = permissions.admin = true;
  permissions.tenant_salts = {"*"};
  return permissions;
}

Engine::Engine(Node& node, Clock& clock, uint64_t memory_bytes, Permissions permissions)
    : node_(node), clock_(clock) {
  session_ = node.conductor().next_session_number();
  OpenedSession opened;
  opened.share = must(make_session_share(kGeometry, 1, session_));
  opened.permissions = std::move(permissions);
  opened.name = "engine";
  submission_ = must(MappedMemory::map(opened.share.submission_fd.get(), 0,
                                       submission_bytes(kGeometry), Access::kReadWrite));
  completion_ = must(MappedMemory::map(opened.share.completion_fd.get(), 0,
                                       completion_bytes(kGeometry), Access::kReadOnly));
  cells_ = must(MappedMemory::map(opened.share.cells_fd.get(), 0, cells_bytes(kGeometry),
                                  Access::kReadWrite));
  share_memory_ = {submission_.data(), completion_.data(), cells_.data(), kGeometry};
  out_ = std::make_unique<SubmissionProducer>(share_memory_);
  in_ = std::make_unique<CompletionConsumer>(share_memory_);
  node.conductor().open_session(session_, std::move(opened));
  memory_fd_ = must(make_sealed_memfd("engine-memory", memory_bytes));
  memory_map_ = must(MappedMemory::map(memory_fd_.get(), 0, memory_bytes, Access::kReadWrite));
  memory_ = {memory_map_.data(), memory_map_.size()};
}

Engine::~Engine() { die(); }

void Engine::die(const char* reason) {
  if (dead_) return;
  dead_ = true;
  node_.conductor().session_gone(session_, reason);
}

uint64_t Engine::send_record(RecordType type, Bytes record, uint64_t request) {
  RecordHead head{};
  head.type = static_cast<uint16_t>(type);
  head.request = request != 0 ? request : ++last_request_;
  head.deadline_ns = clock_.now_ns() + timeout_ns;
  KV_CHECK(out_->push(head, record));
  if (!hold_back) out_->publish();
  return head.request;
}

std::vector<uint32_t> Engine::take_claims(uint64_t request, size_t count) {
  std::vector<uint32_t>& words = claims_[request];
  for (size_t i = 0; i < count; ++i) {
    while (claim_taken_[next_claim_ % kGeometry.claims]) ++next_claim_;
    words.push_back(next_claim_++ % kGeometry.claims);
    claim_taken_[words.back()] = true;
    share_memory_.claim(words.back())
        ->store(claim_value(request, static_cast<uint16_t>(i), ClaimState::kQueued),
                std::memory_order_release);
  }
  return words;
}

Claim Engine::claim(uint64_t request, uint32_t item) const {
  return Claim(share_memory_.claim(claims_.at(request)[item]), request,
               static_cast<uint16_t>(item));
}

uint64_t Engine::attach(const NamespaceFields& fields, AttachRequest more) {
  const std::vector<std::byte> encoded = must(encode_identity(fields));
  more.identity = encoded;
  return send(RecordType::kAttach, more);
}

uint64_t Engine::register_region() {
  const uint64_t token = ++last_token_;
  KV_CHECK(node_.conductor().offer_fd(session_, token, UniqueFd(::dup(memory_fd_.get()))));
  const uint64_t nonce = 0x5eed0000 + token;
  std::memcpy(memory_.data(), &nonce, sizeof nonce);
  return send(RecordType::kRegisterRegion,
              RegisterRegionRequest{token, 0, memory_.size(), 0, 0, nonce});
}

uint64_t Engine::register_layout(Handle region_handle, uint32_t blocks, uint64_t bytes,
                                 uint32_t runs) {
  std::vector<LayoutRun> list;
  for (uint32_t r = 0; r < runs; ++r)
    list.push_back({region_handle, r * (bytes / runs), bytes, bytes / runs});
  return send(RecordType::kRegisterLayout, RegisterLayoutRequest{blocks, list});
}

uint64_t Engine::lookup(LookupRequest request, const std::vector<uint64_t>& keys) {
  std::vector<std::byte> storage;
  const PoolPolicy own{space, HitPolicy::kAllPages, 0};
  request.keys = keys_of(keys, storage);
  request.total = request.total == 0 ? static_cast<uint32_t>(keys.size()) : request.total;
  if (request.pools.empty()) request.pools = {&own, 1};
  return send(RecordType::kLookup, request);
}

uint64_t Engine::put(PutRequest request, const std::vector<uint64_t>& keys, Handle layout_handle,
                     const std::vector<uint32_t>& numbers) {
  std::vector<std::byte> storage;
  const std::vector<uint32_t> claims = take_claims(last_request_ + 1, numbers.size());
  std::vector<Block> blocks;
  for (size_t i = 0; i < numbers.size(); ++i)
    blocks.push_back({layout_handle, numbers[i], claims[i]});
  request.keys = keys_of(keys, storage);
  request.items.blocks = blocks;
  if (request.namespace_handle == 0) request.namespace_handle = space;
  return send(RecordType::kPut, request);
}

uint64_t Engine::get(GetRequest request, const std::vector<uint64_t>& keys, Handle layout_handle,
                     const std::vector<uint32_t>& numbers) {
  std::vector<std::byte> storage;
  const std::vector<uint32_t> claims = take_claims(last_request_ + 1, numbers.size());
  std::vector<Block> blocks;
  for (size_t i = 0; i < numbers.size(); ++i)
    blocks.push_back({layout_handle, numbers[i], claims[i]});
  request.keys = keys_of(keys, storage);
  request.items.blocks = blocks;
  if (request.namespace_handle == 0) request.namespace_handle = space;
  return send(RecordType::kGet, request);
}

void Engine::read_answers() {
  Bytes payload;
  while (const CompletionHead* head = in_->peek(payload)) {
    Answer& answer = partial_[head->request];
    if (head->cell == 0) answer.head = *head;
    const bool ok = head->status == 0 || static_cast<Code>(head->status) == Code::kMemoryFault;
    const auto type = static_cast<RecordType>(head->type);
    if (type == RecordType::kLookup && ok) {
      const size_t bits = (head->items + 7) / 8;
      for (uint32_t i = 0; i < head->items; ++i) {
        answer.restorable.push_back(
            static_cast<uint8_t>(static_cast<unsigned>(payload[i / 8]) >> (i % 8) & 1));
        answer.places.push_back(static_cast<uint8_t>(payload[bits + i]));
      }
    } else if (ok && (type == RecordType::kPut || type == RecordType::kGet ||
                      type == RecordType::kDelete)) {
      for (const std::byte code : payload) answer.items.push_back(static_cast<Code>(code));
    } else {
      answer.text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    }
    const bool last = head->cell + 1 == head->cells;
    const uint64_t request = head->request;
    in_->consume();
    if (!last) continue;
    KV_CHECK(answers_.count(request) == 0);  // exactly one answer
    for (const uint32_t word : claims_[request]) claim_taken_[word] = false;
    answers_[request] = std::move(partial_[request]);
    partial_.erase(request);
  }
}

std::optional<Answer> Engine::answer(uint64_t request) {
  read_answers();
  const auto found = answers_.find(request);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

Answer Engine::wait(uint64_t request) {
  for (int i = 0; i < 100'000; ++i) {
    if (auto found = answer(request)) return *found;
    node_.step();
  }
  std::fprintf(stderr, "request %llu was not answered\n", static_cast<unsigned long long>(request));
  std::abort();
}

void Engine::set_up(const NamespaceFields& fields, uint32_t blocks, AttachRequest more,
                    uint32_t runs) {
  const Answer attached = wait(attach(fields, more));
  if (attached.status() != Code::kOk) std::fprintf(stderr, "%s\n", attached.text.c_str());
  KV_CHECK(attached.status() == Code::kOk);
  space = attached.head.handle;
  block_bytes = fields.parts[fields.part_index(more.coordinate).value_or(0)].bytes;
  region = wait(register_region()).head.handle;
  const Answer laid_out = wait(register_layout(region, blocks, block_bytes, runs));
  if (laid_out.status() != Code::kOk) std::fprintf(stderr, "%s\n", laid_out.text.c_str());
  KV_CHECK(laid_out.status() == Code::kOk);
  layout = laid_out.head.handle;
}

}  // namespace kvsidecar::testing
