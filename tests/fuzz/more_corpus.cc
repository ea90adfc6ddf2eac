// SPDX-License-Identifier: Apache-2.0
#include "ipc/layout.h"
#include "tests/fuzz/adoption_input.h"
#include "tests/fuzz/completion_input.h"
#include "tests/fuzz/pool_plan_input.h"
#include "tests/fuzz/seed.h"
#include "tests/fuzz/span_table_input.h"
#include "tests/fuzz/state_input.h"

namespace kvsidecar::fuzz {
namespace {

struct Story : Seed {
  explicit Story(uint8_t options) { add(options); }
  Story& begin(Kind kind, uint8_t count, uint8_t flags = 0, uint8_t timeout_ms = 100) {
    add(Step::kBegin).add(kind).add(count).add(flags).add(timeout_ms);
    return *this;
  }
  Story& tick(uint16_t tenths = 1) {
    add(Step::kTick).add(tenths);
    return *this;
  }
  Story& take() {
    add(Step::kTake);
    return *this;
  }
  Story& copy(uint8_t request, uint8_t item) {
    add(Step::kCopy).add(request).add(item);
    return *this;
  }
  Story& end(uint8_t request, uint8_t item, uint8_t how) {
    add(Step::kEnd).add(request).add(item).add(how);
    return *this;
  }
  Story& serve(uint8_t request = 0) {
    add(Step::kServe).add(request);
    return *this;
  }
  // Cell 0 of 1, no edits.
  Story& answer(uint8_t request, uint8_t status, uint8_t item_status, uint8_t cells = 4) {
    add(Step::kAnswer).add(request).add(status).add(item_status).add(cells).add(uint8_t{0});
    return *this;
  }
  Story& on(Step step, uint8_t pick) {
    add(step).add(pick);
    return *this;
  }
};

void hostile_completions() {
  // OK, refusal and unknown statuses while the claims say COPYING, for each kind with claims.
  for (uint8_t kind = 0; kind < 5; ++kind) {
    for (const uint8_t status : std::initializer_list<uint8_t>{0, 11, 31}) {
      Story s(kind & 1);
      s.begin(static_cast<Kind>(kind), 3).take().copy(0, 0).copy(0, 1);
      s.answer(0, status, 0).tick().begin(static_cast<Kind>(kind), 3).take().tick(2000);
      s.end(0, 0, 0).end(0, 1, 1).answer(0, 0, 0).tick(2000).on(Step::kErase, 0).tick();
      s.write("completion_fuzz", "early-" + std::to_string(kind) + "-" + std::to_string(status));
    }
  }
  Story twice(0);
  twice.begin(Kind::kGet, 95).begin(Kind::kGet, 95).take().copy(1, 0);
  twice.answer(0, 0, 255, 8).answer(0, 0, 255, 8).answer(0, 0, 255, 4).tick();
  twice.write("completion_fuzz", "unknown-status-twice");
  Story words(1);
  for (uint8_t which = 0; which < 5; ++which)
    words.begin(Kind::kGet, 40, kLayered).add(Step::kWord).add(which).add(uint8_t{0}).add(~0ull);
  words.take().serve().tick(2000);
  words.add(Step::kWord).add(uint8_t{0}).add(uint8_t{0}).add(0ull);
  words.write("completion_fuzz", "words");
  Story raw(0);
  CompletionHead head{};
  head.request = 1;
  head.cell = 3;
  head.cells = 9;
  head.items = ~0u;
  head.length = ~0u;
  raw.begin(Kind::kLookup, 9, kMany).take().add(Step::kRaw).add(head).add(uint8_t{4}).text("abcd");
  raw.tick().serve().tick().write("completion_fuzz", "raw");
}

}  // namespace

void chunks() {
  for (uint8_t mode = 0; mode < 8; ++mode) {
    Seed seed;
    seed.add(mode);
    if (mode & kChunkRuns) {
      seed.add(uint8_t{4})
          .add(WrittenRun{0, 1, 1, 0, 1, 1, 2})
          .add(WrittenRun{1, 4, 5, 1, 2, 3, 6});
      seed.add(WrittenRun{3, 2, 2, 0, 3, 255, 0}).add(WrittenRun{7, 1, 1, 3, 4, 0, 255});
    }
    // A version, a length of a run, an entry's state; the label and its check.
    if (mode & (kChunkEdits | kChunkRuns))
      seed.add(uint32_t{0x05000008}).add(uint32_t{0x09000018}).add(uint32_t{0xf7000100});
    seed.write("span_table_fuzz", "mode-" + std::to_string(mode));
    if (mode & kChunkEdits)
      seed.add(uint32_t{0x01000088}).write("span_table_fuzz", "label-" + std::to_string(mode));
  }
}

void adoptions() {
  const auto harm = [](HarmKind kind, uint8_t value, uint16_t count, uint32_t at, uint32_t from) {
    return Harm{static_cast<uint8_t>(kind), value, count, at, from};
  };
  for (uint8_t options = 0; options < 8; ++options) {
    Seed seed;
    seed.add(options).write("adoption_fuzz", "whole-" + std::to_string(options));
    seed.add(harm(HarmKind::kBytes, 0, 4096, 8192, 12288));
    seed.add(harm(HarmKind::kByte, options, 0, 65536 + 300, 0));
    seed.write("adoption_fuzz", "swapped-" + std::to_string(options));
  }
  for (uint16_t field = 0; field < 7; ++field) {
    Seed seed;
    seed.add(uint8_t{0}).add(harm(HarmKind::kRecord, 1, field, 0, field));
    seed.add(harm(HarmKind::kRecord, 3, field, 1, field));
    seed.add(harm(HarmKind::kState, static_cast<uint8_t>(field), 0, 0, 1));
    seed.write("adoption_fuzz", "field-" + std::to_string(field));
  }
  Seed headers;
  headers.add(uint8_t{1}).add(harm(HarmKind::kByte, 5, 0, 24, 0));
  headers.add(harm(HarmKind::kHeader, 0, 0, 0, 0)).add(harm(HarmKind::kZero, 0, 256, 65536, 0));
  headers.add(harm(HarmKind::kBytes, 0, 65535, 131072, 0));
  headers.write("adoption_fuzz", "headers");
}

void completions() {
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(Kind::kKinds); ++kind) {
    Story s(kind & 1);
    s.begin(static_cast<Kind>(kind), 5, kLayered).take().serve().tick();
    s.add(Step::kPoll);
    s.begin(static_cast<Kind>(kind), 70, kMany | kTicket, 3).take().copy(0, 1);
    s.on(Step::kRevoke, 1).add(uint8_t{1});
    s.on(Step::kCancel, 1).tick(500);
    s.serve().tick(500).on(Step::kErase, 0).on(Step::kErase, 1);
    s.write("completion_fuzz", "kind-" + std::to_string(kind));
  }
  for (const uint8_t kind : std::initializer_list<uint8_t>{0, 1, 2, 3}) {
    Story s(2);
    s.begin(static_cast<Kind>(kind), 5).take().copy(0, 1);
    s.write("completion_fuzz", "closed-" + std::to_string(kind));
  }
  for (const uint8_t dead : std::initializer_list<uint8_t>{0, 1}) {
    Story s(2);
    s.begin(Kind::kGet, 9).begin(Kind::kStagedGet, 9).begin(Kind::kPut, 9).take();
    s.copy(0, 0).copy(1, 0).copy(2, 0).on(Step::kLose, dead).tick(500);
    s.add(Step::kReconnect);
    s.begin(Kind::kStagedGet, 9).take().serve().tick(500);
    s.write("completion_fuzz", dead ? "died" : "hung-up");
  }
  Story crowd(1);
  for (uint8_t i = 0; i < 12; ++i) crowd.begin(i % 2 ? Kind::kStagedPut : Kind::kGet, 95);
  for (uint8_t i = 0; i < 12; ++i) crowd.take().serve().tick();
  crowd.write("completion_fuzz", "crowd");
  hostile_completions();
}

void requests_over_http() {
  const auto seed = [](const char* name, std::string_view request, uint8_t piece = 255) {
    Seed().add(piece).text(request).write("http_fuzz", name);
  };
  seed("get", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  seed("pieces", "GET /healthz?x=1 HTTP/1.0\r\n\r\n", 2);
  seed("bare", "GET /\n\n");
  seed("post", "POST /metrics HTTP/1.0\n\n");
  seed("blank", "\r\n\r\n");
  seed("one-word", "GET\nHost: a b\n\n");
  seed("long", "GET /" + std::string(9000, 'x'));
  seed("address", "127.0.0.1:9418");
  seed("address-6", "[::1]:65535");
}

void states() {
  const auto add = [](Seed& seed, StateName name, uint8_t mode, uint8_t number,
                      std::initializer_list<uint8_t> bytes = {}) {
    seed.add(
        StateFile{static_cast<uint8_t>(name), mode, number, static_cast<uint8_t>(bytes.size())});
    for (const uint8_t byte : bytes) seed.add(byte);
  };
  Seed all, torn, last, highest;
  for (uint8_t name = 0; name < static_cast<uint8_t>(StateName::kNames); ++name) {
    add(all, static_cast<StateName>(name), kStateEdits, 5);
    Seed one;
    add(one, static_cast<StateName>(name), kStateEdits, 6, {9, 255, 30, 0});
    one.write("state_fuzz", "edited-" + std::to_string(name));
    add(torn, static_cast<StateName>(name), kStateEdits | kStateShort, 7);
  }
  all.write("state_fuzz", "all");
  torn.write("state_fuzz", "torn");
  // The last epoch there is, by the folder's file and by a segment's name.
  add(last, StateName::kNode, kStateEdits, 0);
  last.add(StateFile{static_cast<uint8_t>(StateName::kFolderEpoch), 0, 0, 10}).text("4294967295");
  last.write("state_fuzz", "last-epoch");
  Seed named;
  add(named, StateName::kNode, kStateEdits, 0);
  add(named, StateName::kSegment, 0, 0, {255});
  named.write("state_fuzz", "last-epoch-in-a-name");
  // A generation after which there is none, its check right.
  add(highest, StateName::kNamespace, kStateEdits | kStateRightChecks, 1,
      {8, 255, 9, 255, 10, 255, 11, 255, 12, 255, 13, 255, 14, 255, 15, 255});
  highest.write("state_fuzz", "last-generation");
  Seed beyond;
  add(beyond, StateName::kEpoch, kStateEdits | kStateRightChecks, 255, {9, 255, 10, 255, 11, 255});
  beyond.write("state_fuzz", "last-daemon-epoch");
}

void pool_plans() {
  const auto spans = [](const char* name, const SpanPlan& plan) {
    Seed().add(PlanOf::kSpans).add(plan).write("pool_plan_fuzz", name);
  };
  spans("small", {63, 7, 1, 0, 4096, 4096, 256});
  spans("large", {4095, 63, 8, 100, 8u << 20, 1u << 30, 32768});
  spans("tiny-spans", {0, 1023, 255, 16384, 1u << 30, 8192, 512});
  spans("odd", {3, 5, 4, 9, 20000, 12289, 300});
  Seed files, links;
  files.add(PlanOf::kFiles);
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(FileKind::kKinds); ++kind)
    files.add(PoolFile{static_cast<uint8_t>(kind | kChunkName), kind, 0});
  files.write("pool_plan_fuzz", "files");
  links.add(PlanOf::kFiles);
  for (const std::string_view name : {"007", "99999999999999999999", "1x", "", "2"})
    links
        .add(PoolFile{static_cast<uint8_t>(kChunkPrefix | static_cast<uint8_t>(FileKind::kSymlink)),
                      0, static_cast<uint8_t>(name.size())})
        .text(name);
  links.add(PoolFile{static_cast<uint8_t>(FileKind::kChunk), 0, 14}).text("kvsidecar.pp.0");
  links.write("pool_plan_fuzz", "names");
}

}  // namespace kvsidecar::fuzz
