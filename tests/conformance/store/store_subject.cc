// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/store/store_subject.h"

#include <cstdlib>
#include <cstring>

#include "sidecar/digest.h"
#include "sidecar/env.h"

namespace kvsidecar {
namespace {
constexpr uint64_t kDeadlineNs = 30'000'000'000;
constexpr uint64_t kWaitNs = 50'000'000;

void fill(std::byte* bytes, uint64_t count, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<std::byte>(state >> 56);
  }
}
}  // namespace

void FreeAligned::operator()(std::byte* memory) const { std::free(memory); }

PageMemory page_memory(uint64_t page_bytes) {
  const uint64_t rounded = (page_bytes + 4095) / 4096 * 4096;
  PageMemory memory(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
  std::memset(memory.get(), 0xee, rounded);
  return memory;
}

std::unique_ptr<NamespaceInfo> make_namespace(const std::string& model, uint64_t page_bytes) {
  auto space = std::make_unique<NamespaceInfo>();
  NamespaceFields& f = space->fields;
  f.model = model;
  f.revision = "r1";
  f.dtype = "bf16";
  f.quantization = "none";
  f.layout = "test";
  f.pool = "kv";
  f.draft_model = "none";
  f.tokens_per_page = 16;
  f.tp_size = f.pp_size = f.cp_size = 1;
  f.slice = 0;
  f.slices = 1;
  f.parts = {PartSpec{{}, page_bytes}};
  auto encoded = encode_identity(f);
  KV_CHECK(encoded.ok());
  space->encoded = encoded.take();
  space->id = namespace_id(space->encoded);
  space->page_bytes = page_bytes;
  space->part_offsets = {0};
  return space;
}

TestPage::TestPage(const NamespaceInfo& in_space, uint64_t generation, uint64_t number,
                   size_t description_bytes)
    : space(&in_space),
      page_bytes(in_space.page_bytes),
      memory(page_memory(in_space.page_bytes)),
      record(std::make_shared<PageRecord>()) {
  fill(memory.get(), page_bytes, number * 31 + generation);
  record->key.resize(8 + number % 57);
  fill(record->key.data(), record->key.size(), number);
  std::memcpy(record->key.data(), &number, sizeof number);
  record->description.resize(description_bytes);
  fill(record->description.data(), description_bytes, number + 7);
  record->namespace_id = space->id;
  record->generation = generation;
  record->page_bytes = page_bytes;
  record->hash = page_hash(space->id, generation, record->key);
  const uint64_t seed = part_seed(record->hash, Coordinate{});
  record->part_digests = {part_digest(Bytes(memory.get(), page_bytes), seed)};
  record->digest = page_digest(record->part_digests);
}

StoreCommand TestPage::write(uint64_t token, bool durable) const {
  StoreCommand command;
  command.op = StoreOp::kWrite;
  command.token = token;
  command.durable = durable;
  command.space = space;
  command.record = record;
  command.page = memory.get();
  command.page_bytes = page_bytes;
  return command;
}

bool TestPage::same_bytes(const std::byte* data) const {
  return std::memcmp(data, memory.get(), page_bytes) == 0;
}

bool TestPage::same_record(const PageRecord& other) const {
  return other.hash == record->hash && other.namespace_id == record->namespace_id &&
         other.generation == record->generation && other.page_bytes == record->page_bytes &&
         other.digest == record->digest && other.part_digests == record->part_digests &&
         other.key == record->key && other.description == record->description;
}

void StoreDriver::turn() {
  if (store_->step()) return;
  Waker& waker = store_->waker();
  waker.announce();
  if (!store_->has_work() && !store_->has_done()) waker.sleep(kWaitNs);
  waker.retire();
}

void StoreDriver::submit(StoreCommand&& command) {
  const uint64_t deadline_ns = real_clock().now_ns() + kDeadlineNs;
  while (!store_->submit(std::move(command))) {
    StoreDone done;
    if (store_->poll(done))
      early_.push_back(std::move(done));
    else
      turn();
    if (real_clock().now_ns() > deadline_ns) {
      ADD_FAILURE() << "the store's queue stays full";
      return;
    }
  }
}

StoreDone StoreDriver::next() {
  StoreDone done;
  if (!early_.empty()) {
    done = std::move(early_.front());
    early_.pop_front();
    return done;
  }
  const uint64_t deadline_ns = real_clock().now_ns() + kDeadlineNs;
  while (!store_->poll(done)) {
    turn();
    if (real_clock().now_ns() > deadline_ns) {
      ADD_FAILURE() << "no completion came";
      done.status = Code::kInternal;
      break;
    }
  }
  return done;
}

StoreDone StoreDriver::run(StoreCommand&& command) {
  const uint64_t token = command.token;
  const StoreOp op = command.op;
  submit(std::move(command));
  StoreDone done = next();
  EXPECT_EQ(done.token, token);
  EXPECT_EQ(done.op, op);
  return done;
}

StoreDone StoreDriver::write(const TestPage& page, bool durable) {
  return run(page.write(next_token_++, durable));
}

StoreDone StoreDriver::read(const StoreLocation& location, uint64_t page_bytes, std::byte* into) {
  StoreCommand command;
  command.op = StoreOp::kRead;
  command.token = next_token_++;
  command.location = location;
  command.page = into;
  command.page_bytes = page_bytes;
  return run(std::move(command));
}

Code StoreDriver::erase(const StoreLocation& location, bool durable) {
  StoreCommand command;
  command.op = StoreOp::kDelete;
  command.token = next_token_++;
  command.location = location;
  command.durable = durable;
  return run(std::move(command)).status;
}

Code StoreDriver::unlink(uint64_t segment) {
  StoreCommand command;
  command.op = StoreOp::kUnlink;
  command.token = next_token_++;
  command.location.segment = segment;
  return run(std::move(command)).status;
}

Code StoreDriver::flush() {
  StoreCommand command;
  command.op = StoreOp::kFlush;
  command.token = next_token_++;
  return run(std::move(command)).status;
}

std::vector<std::unique_ptr<FoundSegment>> StoreDriver::scan() {
  std::vector<std::unique_ptr<FoundSegment>> segments;
  StoreCommand command;
  command.op = StoreOp::kScan;
  command.token = next_token_++;
  submit(std::move(command));
  for (;;) {
    StoreDone done = next();
    EXPECT_EQ(done.op, StoreOp::kScan);
    if (!done.found) {
      EXPECT_EQ(done.status, Code::kOk);
      return segments;
    }
    segments.push_back(std::move(done.segment));
  }
}

}  // namespace kvsidecar
