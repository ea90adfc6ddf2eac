// SPDX-License-Identifier: Apache-2.0
// A scripted engine: a session's client end over real rings and real device memory (a memfd),
// without the client library and without threads. Requests go out at once; answers are looked for
// when asked.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipc/codec.h"
#include "ipc/handshake_io.h"
#include "tests/support/node.h"

namespace kvsidecar::testing {

// Fields of a namespace that attaches; parts of `part_bytes` each at tp 0..parts-1.
NamespaceFields fields_of(uint64_t part_bytes, uint16_t parts = 1, const std::string& pool = "kv");
std::vector<std::byte> key_of(uint64_t number, size_t bytes = 32);
// The bytes that belong to a key, part and version: what a correct get must give.
void fill_page(std::span<std::byte> part, uint64_t key, uint64_t part_number = 0,
               uint64_t version = 0);
bool holds_page(std::span<const std::byte> part, uint64_t key, uint64_t part_number = 0,
                uint64_t version = 0);

struct Answer {
  CompletionHead head{};
  std::vector<std::byte> payload;           // of all cells, end to end, for a lookup decoded below
  std::vector<Code> items;                  // put, get, delete
  std::vector<uint8_t> restorable, places;  // lookup
  std::string text;                         // the sentence of an error; JSON of stat and why
  Code status() const { return static_cast<Code>(head.status); }
};

Permissions everything();

class Engine {
 public:
  static constexpr Geometry kGeometry{32, 4, 32, 64, 1024, 16};

  Engine(Node& node, Clock& clock, uint64_t memory_bytes, Permissions permissions = everything());
  ~Engine();  // the session is reported gone, if die() hasn't already
  void die(const char* reason = "test");

  // Whether the ring takes another request, however large. A client answers BUSY when it doesn't.
  bool has_room() { return out_->has_room(); }
  // Requests. Deadline: `timeout_ns` from now. Each returns its number.
  uint64_t attach(const NamespaceFields& fields, AttachRequest more = {});
  uint64_t register_region();
  uint64_t register_layout(Handle region, uint32_t blocks, uint64_t block_bytes, uint32_t runs = 1);
  uint64_t lookup(LookupRequest request, const std::vector<uint64_t>& keys);
  uint64_t put(PutRequest request, const std::vector<uint64_t>& keys, Handle layout,
               const std::vector<uint32_t>& blocks);
  uint64_t get(GetRequest request, const std::vector<uint64_t>& keys, Handle layout,
               const std::vector<uint32_t>& blocks);
  template <typename Request>
  uint64_t send(RecordType type, const Request& request) {
    Encoded record;
    encode(request, record);
    return send_record(type, record);
  }
  // `request` 0: the next number; else that number once more, for a lookup's further records.
  uint64_t send_record(RecordType type, Bytes record, uint64_t request = 0);
  // Claims for a request to be built by hand (items of a put or get), QUEUED. A word is free again
  // once its request's answer was read.
  std::vector<uint32_t> take_claims(uint64_t request, size_t count);

  std::optional<Answer> answer(uint64_t request);  // null: not yet
  // Steps the node until the answer is there; aborts the test when it does not come.
  Answer wait(uint64_t request);
  // attach + region + layout in one go, for tests that aren't about them.
  void set_up(const NamespaceFields& fields, uint32_t blocks, AttachRequest more = {},
              uint32_t runs = 1);

  Claim claim(uint64_t request, uint32_t item) const;
  std::span<std::byte> block(uint32_t number) {
    return memory_.subspan(number * block_bytes, block_bytes);
  }
  std::span<std::byte> memory() { return memory_; }
  SessionMemory& session_memory() { return share_memory_; }
  uint64_t session() const { return session_; }
  uint64_t next_request() const { return last_request_ + 1; }

  uint64_t timeout_ns = 1'000'000'000;
  bool hold_back = false;  // records are written and not published, as by a client about to die
  Handle space = 0, region = 0, layout = 0;
  uint64_t block_bytes = 0;

 private:
  void read_answers();

  Node& node_;
  Clock& clock_;
  uint64_t session_ = 0;
  bool dead_ = false;
  MappedMemory submission_, completion_, cells_;
  SessionMemory share_memory_;
  std::unique_ptr<SubmissionProducer> out_;
  std::unique_ptr<CompletionConsumer> in_;
  UniqueFd memory_fd_;
  MappedMemory memory_map_;
  std::span<std::byte> memory_;
  uint64_t last_request_ = 0, last_token_ = 0;
  uint32_t next_claim_ = 0;
  std::map<uint64_t, std::vector<uint32_t>> claims_;
  std::vector<bool> claim_taken_ = std::vector<bool>(kGeometry.claims);
  std::map<uint64_t, Answer> answers_, partial_;
};

}  // namespace kvsidecar::testing
