// SPDX-License-Identifier: Apache-2.0
// Goal: whatever a client writes into its shared memory, the daemon reads within bounds and says
// which field is wrong.
// Method: the test writes positions and heads straight into the memory, one wrong field at a time.
#include <functional>

#include "ipc/ring.h"
#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

class HostileClient : public ::testing::Test {
 protected:
  SmallSession session;
  SubmissionConsumer consumer{session.memory};
  alignas(16) std::byte payload[kRequestBytesMax];
  RecordHead out{};
  uint32_t length = 0;

  RecordHead& head_at(uint64_t cell) {
    return *reinterpret_cast<RecordHead*>(session.memory.submission + sizeof(SubmissionHead) +
                                          cell * kSubmissionCellBytes);
  }
  void publish(uint64_t position) { session.memory.submission_head().published.store(position); }
  Result<int> pop() { return consumer.pop(out, payload, length); }
};

TEST_F(HostileClient, APositionFurtherAheadThanTheRingIsAnError) {
  for (const uint64_t position : {uint64_t{9}, uint64_t{1} << 32, UINT64_MAX}) {
    publish(position);
    expect_refused(pop().status(), Code::kInvalid, "published is " + std::to_string(position));
  }
  publish(8);
  EXPECT_EQ(*pop(), 1);
}

TEST_F(HostileClient, APositionBehindOursIsAnError) {
  publish(3);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(*pop(), 1);
  publish(2);
  EXPECT_TRUE(consumer.has_records());  // so that the daemon doesn't sleep over it
  expect_refused(pop().status(), Code::kInvalid, "consumed 3");
}

TEST_F(HostileClient, EveryWrongFieldOfAHeadIsNamed) {
  struct Case {
    const char* word;
    std::function<void(RecordHead&)> spoil;
  };
  const Case cases[] = {
      {"length is 1985", [](RecordHead& h) { h.length = 1985; }},
      {"length is 4294967295", [](RecordHead& h) { h.length = UINT32_MAX; }},
      {"flags is 1", [](RecordHead& h) { h.flags = 1; }},
      {"reserved is 9", [](RecordHead& h) { h.reserved[7] = 9; }},
      {"reserved is 8", [](RecordHead& h) { h.reserved[0] = 8; }},
      {"arena_offset is 64", [](RecordHead& h) { h.arena_offset = 64; }},
      {"length is 1;", [](RecordHead& h) { h.length = 1, h.arena_length = 64; }},
      {"arena_length is 65537", [](RecordHead& h) { h.arena_length = 65537; }},
      {"arena_offset is 32", [](RecordHead& h) { h.arena_offset = 32, h.arena_length = 64; }},
      {"arena_offset is 131072",
       [](RecordHead& h) { h.arena_offset = 131072, h.arena_length = 1; }},
      {"arena_offset is 131008",
       [](RecordHead& h) { h.arena_offset = 131008, h.arena_length = 65; }},
      {"arena_offset is 4294967232",
       [](RecordHead& h) { h.arena_offset = 4294967232u, h.arena_length = 65536; }}};
  publish(1);
  for (const Case& c : cases) {
    head_at(0) = RecordHead{};
    c.spoil(head_at(0));
    expect_refused(pop().status(), Code::kInvalid, c.word);
  }
}

TEST_F(HostileClient, TheLastBytesOfTheArenaAreStillIts) {
  publish(2);
  head_at(0) = RecordHead{};
  head_at(0).arena_offset = 131008;
  head_at(0).arena_length = 64;
  session.memory.submission[submission_bytes(kSmallGeometry) - 1] = std::byte{77};
  ASSERT_EQ(*pop(), 1);
  EXPECT_EQ(length, 64u);
  EXPECT_EQ(payload[63], std::byte{77});
  head_at(1) = RecordHead{};
  head_at(1).arena_offset = 64 * 1024;
  head_at(1).arena_length = 65536;
  EXPECT_EQ(*pop(), 1);
}

// The position is looked at when half of the ring is lent out.
TEST_F(HostileClient, ConsumedThatWasNeverPublishedIsAnError) {
  CompletionProducer answers(session.memory);
  auto& consumed = session.memory.cell_page().consumed;
  ASSERT_TRUE(*answers.reserve(4));
  for (const uint64_t position : {uint64_t{1}, UINT64_MAX, uint64_t{1} << 63}) {
    consumed.store(position);
    expect_refused(answers.reserve(1).status(), Code::kInvalid,
                   "consumed is " + std::to_string(position));
  }
  answers.unreserve(4);
  for (uint64_t i = 0; i < 12; ++i) {
    consumed.store(i);
    ASSERT_TRUE(*answers.reserve(1));
    answers.push(CompletionHead{}, {});
    answers.publish();
  }
  consumed.store(3);  // 9 cells unread of a ring of 8
  expect_refused(answers.reserve(4).status(), Code::kInvalid, "consumed is 3");
  consumed.store(4);
  EXPECT_FALSE(*answers.reserve(4));
}

TEST(HostileDaemon, ALengthBeyondTheCellIsClamped) {
  SmallSession session;
  CompletionProducer answers(session.memory);
  CompletionConsumer reader(session.memory);
  ASSERT_TRUE(*answers.reserve(1));
  answers.push(CompletionHead{}, {});
  auto* head = reinterpret_cast<CompletionHead*>(session.memory.completion + sizeof(InfoPage));
  head->length = UINT32_MAX;
  answers.publish();
  Bytes bytes;
  ASSERT_NE(reader.peek(bytes), nullptr);
  EXPECT_EQ(bytes.size(), kCompletionCellBytes - sizeof(CompletionHead));
}

TEST(HostileDaemon, ImpossiblePositionsShowNothing) {
  SmallSession session;
  CompletionConsumer reader(session.memory);
  SubmissionProducer producer(session.memory);
  Bytes bytes;
  session.memory.info().published.store(9);
  EXPECT_EQ(reader.peek(bytes), nullptr);
  session.memory.info().published.store(UINT64_MAX);
  EXPECT_EQ(reader.peek(bytes), nullptr);
  for (const uint64_t never_sent : {uint64_t{5}, UINT64_MAX}) {
    session.memory.info().consumed.store(never_sent);
    // It is looked at once half the ring is in use.
    const uint32_t cells = session.memory.geometry.submission_cells;
    uint32_t pushed = 0;
    while (pushed < cells && producer.push(RecordHead{}, {})) ++pushed;
    EXPECT_LE(pushed, cells / 2);
  }
}

}  // namespace
}  // namespace kvsidecar
