// SPDX-License-Identifier: Apache-2.0
// Writes the seed corpus: make_corpus FOLDER, which is tests/fuzz/corpus. Run it again after a
// change of a format or of what an input means; files of crashes (their names begin with crash-)
// stay as they are.
#include <cstdio>
#include <cstring>

#include "ipc/codec.h"
#include "ipc/handshake.h"
#include "ipc/identity.h"
#include "sidecar/shell/config_keys.h"
#include "tests/fuzz/conductor_input.h"
#include "tests/fuzz/handshake_input.h"
#include "tests/fuzz/seed.h"
#include "tests/fuzz/store_input.h"
#include "tests/support/engine.h"

namespace kvsidecar::fuzz {
namespace {

template <typename Request>
void record(RecordType type, const char* name, const Request& request) {
  Encoded out;
  encode(request, out);
  Seed().add(static_cast<uint8_t>(type)).add(std::span(out)).write("record_fuzz", name);
  Seed hostile;
  hostile.add(uint8_t{12}).add(uint8_t{0}).add(Move::kRecord).add(static_cast<uint8_t>(type));
  hostile.add(static_cast<uint16_t>(out.size())).add(std::span(out));
  hostile.add(Move::kPublish).add(uint8_t{0}).add(Move::kSteps).add(uint8_t{8});
  hostile.write("conductor_fuzz", std::string("record-") + name);
}

void records() {
  const auto identity = *encode_identity(testing::fields_of(4096, 2));
  Seed().add(uint8_t{0}).add(std::span(identity)).write("record_fuzz", "identity");
  std::vector<std::byte> keys = testing::key_of(1), group(16);
  const std::vector<std::byte> second = testing::key_of(2);
  keys.insert(keys.end(), second.begin(), second.end());
  const Keys two{Bytes(keys), 32};
  const Block blocks[] = {{1, 0, 0}, {1, 1, 1}};
  const RunItem items[] = {{0, 1, 0, 0}, {1, 1, 1, 0}};
  const Run runs[] = {{1, 0, 4096}, {1, 4096, 4096}};
  const PoolPolicy pools[] = {{1, HitPolicy::kAllPages, 0}, {2, HitPolicy::kTrailingPages, 4}};
  const LayoutRun layout[] = {{1, 0, 4096, 2048}, {1, 2048, 4096, 2048}};
  const uint32_t ends[] = {3, 5};
  const std::vector<std::byte> text(5, std::byte{'d'});

  AttachRequest attach;
  attach.identity = identity;
  attach.group = group;
  attach.group_size = 2;
  record(RecordType::kAttach, "attach", attach);
  record(RecordType::kRegisterRegion, "region", RegisterRegionRequest{1, 0, 32768, 0, 0, 7});
  record(RecordType::kRegisterLayout, "layout", RegisterLayoutRequest{8, layout});
  record(RecordType::kUnregister, "unregister", UnregisterRequest{1});
  record(RecordType::kLookup, "lookup", LookupRequest{two, 0, 2, pools, 3, 500, true});
  PutRequest put;
  put.namespace_handle = 1;
  put.keys = two;
  put.items.blocks = blocks;
  put.descriptions = text;
  put.description_ends = ends;
  put.fence = {1, 0, 5};
  record(RecordType::kPut, "put", put);
  GetRequest get;
  get.namespace_handle = 1;
  get.keys = two;
  get.items = {{}, items, runs};
  get.has_coordinate = true;
  record(RecordType::kGet, "get", get);
  record(RecordType::kRelease, "release", ReleaseRequest{1});
  record(RecordType::kCancel, "cancel", CancelRequest{1});
  record(RecordType::kDelete, "delete", DeleteRequest{1, two});
  record(RecordType::kClear, "clear", ClearRequest{0, group});
  record(RecordType::kStat, "stat", StatRequest{StatWhat::kSessions, 0});
  record(RecordType::kWhy, "why", WhyRequest{group, Bytes(second), 0});
}

// One session's requests as moves; `options` as conductor_fuzz reads them.
struct Session : Seed {
  explicit Session(uint8_t options, uint8_t plan = 0) { add(options).add(plan); }
  Session& ask(RecordType type, uint8_t key, uint8_t block, uint8_t flags = 0) {
    add(Move::kRequest).add(static_cast<uint8_t>(type)).add(key).add(block).add(flags);
    add(uint8_t{0});
    return *this;
  }
  Session& steps(uint8_t count = 15) {
    add(Move::kPublish).add(uint8_t{0}).add(Move::kSteps).add(count);
    add(Move::kConsume).add(uint8_t{0});
    return *this;
  }
};

void sessions() {
  for (uint8_t options = 0; options < 16; ++options) {
    Session s(options, options);
    s.ask(RecordType::kPut, 1, 0, options & 1 ? kDurable : 0).steps();
    s.ask(RecordType::kLookup, 1, 0, kLease | kPrefetch).steps();
    s.ask(RecordType::kGet, 1, 1, options & 2 ? kRuns : 0).steps();
    s.ask(RecordType::kPut, 2, 3, kFenced).ask(RecordType::kCancel, 0, 0).steps(3);
    s.add(Move::kNeighbour).add(uint8_t{3});
    s.ask(RecordType::kDelete, 1, 0).ask(RecordType::kWhy, 1, 0).steps();
    s.ask(RecordType::kUnregister, 0, 0, options & 4 ? kRuns : 0).steps();
    s.write("conductor_fuzz", "session-" + std::to_string(options));
  }
  Session admin(12);
  for (uint8_t what = 0; what < 4; ++what) admin.ask(RecordType::kStat, 0, what).steps();
  admin.ask(RecordType::kAttach, 1, 0, kDurable).ask(RecordType::kClear, 0, 0).steps();
  admin.write("conductor_fuzz", "admin");

  Session storm(6);
  for (uint8_t i = 0; i < 12; ++i) storm.ask(RecordType::kPut, i, i % 8);
  storm.add(Move::kPublish).add(uint8_t{0}).add(Move::kSteps).add(uint8_t{1});
  storm.add(Move::kClaim).add(uint16_t{3}).add(uint64_t{~0ull});
  storm.add(Move::kFence).add(uint8_t{1}).add(uint64_t{1});
  storm.add(Move::kFd).add(uint8_t{4}).add(uint8_t{0});
  storm.ask(RecordType::kRegisterRegion, 4, 0);
  storm.steps().add(Move::kMemory).add(uint16_t{9}).add(uint8_t{9});
  storm.add(Move::kTime).add(uint32_t{2'000'000}).add(Move::kReopen).add(Move::kNeighbour);
  storm.add(uint8_t{1}).write("conductor_fuzz", "storm");

  // More pages than most pools hold; each is then asked for again.
  for (uint8_t plan = 0; plan < 12; ++plan) {
    Session many(4, plan);
    for (uint8_t i = 0; i < 100; i = static_cast<uint8_t>(i + 3))
      many.ask(RecordType::kPut, i, i % 6, kThree | (i % 2 ? kDurable : 0)).steps();
    for (uint8_t i = 0; i < 100; i = static_cast<uint8_t>(i + 10))
      many.ask(RecordType::kLookup, i, 0, kThree | kLease | kPrefetch)
          .ask(RecordType::kGet, i, 1, kThree | kLease)
          .steps();
    many.write("conductor_fuzz", "many-" + std::to_string(plan));
  }
  // Two ranks of a group; one part of a page comes, then the other.
  Session group(28);
  for (const uint8_t rank : std::initializer_list<uint8_t>{0, 1}) {
    group.ask(RecordType::kAttach, 1, rank, kGroup).steps();
    group.ask(RecordType::kPut, 5, 0).ask(RecordType::kLookup, 1, 0, kGroup | kLease).steps();
    group.add(Move::kTime).add(uint32_t{5'000'000});
  }
  group.write("conductor_fuzz", "group");

  Session positions(0);
  positions.add(Move::kPublish).add(uint8_t{255}).add(uint64_t{1} << 40).add(Move::kSteps);
  positions.add(uint8_t{1}).add(Move::kReopen).add(Move::kConsume).add(uint8_t{1});
  positions.add(uint64_t{1} << 40);
  positions.ask(RecordType::kWhy, 1, 0).steps();
  positions.write("conductor_fuzz", "positions");
}

void stores() {
  const auto file = [](Seed& seed, uint8_t mode, uint8_t epoch, uint8_t sequence,
                       std::initializer_list<std::pair<uint16_t, uint8_t>> edits) {
    seed.add(StoreFile{mode, epoch, sequence, 0, static_cast<uint16_t>(3 * edits.size())});
    for (const auto& [offset, value] : edits) seed.add(offset).add(value);
  };
  Seed whole, torn, sealed, cut;
  file(whole, kEdits, 0, 0, {});
  file(whole, kEdits, 1, 1, {});
  file(whole, kEdits | kCarrier, 1, 2, {});
  file(whole, kEdits | kCarrier, 2, 2, {});
  whole.write("store_fuzz", "whole");
  file(torn, kEdits, 0, 0, {{4096 + 9, 1}, {24, 1}});
  file(torn, kEdits, 1, 0, {{90, 7}});
  torn.write("store_fuzz", "torn");
  // Directory entries (84), page bytes (64), an entry's offset (40) and trailer (48).
  file(sealed, kEdits | kRightChecks, 0, 0, {{84, 64}});
  file(sealed, kEdits | kRightChecks, 0, 1, {{71, 255}, {4096 + 31, 255}});
  file(sealed, kEdits | kRightChecks, 0, 2, {{4096 + 43, 1}, {4096 + 128 + 50, 8}});
  file(sealed, kEdits | kRightChecks | kCarrier, 1, 0, {{4096 + 40, 2}});
  sealed.write("store_fuzz", "sealed");
  // A page so long that its end wraps around to lie in the file.
  Seed wrapped;
  wrapped.add(StoreFile{kEdits | kRightChecks, 0, 0, 0, 3 * 16});
  for (uint16_t i = 0; i < 8; ++i) {
    wrapped.add(static_cast<uint16_t>(64 + i)).add(uint8_t{255});
    wrapped.add(static_cast<uint16_t>(4096 + 24 + i)).add(uint8_t{255});
  }
  wrapped.write("store_fuzz", "wrapped");
  file(cut, kEdits | kShort, 0, 0, {});
  file(cut, kEdits | kCarrier | kShort, 0, 1, {});
  file(cut, 0, 0, 2, {{0, 0}});
  cut.write("store_fuzz", "cut");
}

void handshakes() {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.bytes = sizeof hello;
  hello.protocol_major = kProtocolMajor;
  std::strcpy(hello.name, "engine");
  const auto say = [](Seed& seed, uint8_t fds, std::span<const std::byte> bytes) {
    seed.add(Say{fds, static_cast<uint16_t>(bytes.size())}).add(bytes);
  };
  const auto bytes_of = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
  const Ready ready{kReadyMagic};
  const FdMessage fd{kFdMagic, 1};
  Seed whole, wrong, early;
  whole.add(Side::kDaemon);
  say(whole, 0, bytes_of(hello));
  say(whole, 0, bytes_of(ready));
  say(whole, 1, bytes_of(fd));
  whole.write("handshake_fuzz", "daemon");
  hello.protocol_major = 9;
  wrong.add(Side::kDaemon);
  say(wrong, 2, bytes_of(hello));
  wrong.write("handshake_fuzz", "daemon-version");
  early.add(Side::kDaemon);
  say(early, 1, bytes_of(fd));
  early.write("handshake_fuzz", "daemon-early");
  for (const uint8_t fds : std::initializer_list<uint8_t>{6, 5, 7}) {
    Seed client;
    client.add(Side::kClient).add(fds).add(uint8_t{0}).add(uint8_t{0});
    client.write("handshake_fuzz", "client-" + std::to_string(fds) + "-fds");
  }
  for (const uint16_t offset :
       std::initializer_list<uint16_t>{0, 8, 12, 16, 24, 48, 52, 56, 60, 64, 68}) {
    Seed client;
    client.add(Side::kClient).add(uint8_t{6}).add(uint8_t{0}).add(uint8_t{1});
    client.add(offset).add(uint8_t{3});
    client.write("handshake_fuzz", "client-byte-" + std::to_string(offset));
  }
}

// Every key, and every shape of an [[allow]].
void configurations() {
  std::string text = print_config(Config());
  Seed().add(std::as_bytes(std::span(text))).write("config_fuzz", "defaults.toml");
  text =
      "[[allow]]\nuid = [0, 1]\npermissions = [\"read\", \"put\", \"clear\", \"admin\"]\n"
      "tenant_salts = [\"*\", \"a\\\"\\\\\\n\"]\npool_bytes_max = \"1GiB\"\nsessions_max = 3\n"
      "[[allow]]\nuser = \"root\"\ngroup = [\"root\"]\ngid = 0\n";
  Seed().add(std::as_bytes(std::span(text))).write("config_fuzz", "allow.toml");
  text = "[copy]\nthreads = 3,\n[nosuch]\nx = 1979-05-27\ny = \"\"\"a\\\n b\"\"\"\nz = {a = [1]}\n";
  Seed().add(std::as_bytes(std::span(text))).write("config_fuzz", "wrong.toml");
}

}  // namespace
}  // namespace kvsidecar::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "make_corpus: name one folder, tests/fuzz/corpus\n");
    return 2;
  }
  using namespace kvsidecar::fuzz;
  seed_folder = argv[1];
  records();
  sessions();
  stores();
  handshakes();
  configurations();
  chunks();
  adoptions();
  completions();
  requests_over_http();
  states();
  pool_plans();
  return 0;
}
