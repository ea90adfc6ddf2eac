// SPDX-License-Identifier: Apache-2.0
// Goal: both rings carry every record once, whole and in order, say when they are full, and lose no
// wake-up.
// Method: both ends in one test over a small session (8 cells, 2 arena blocks), then in two threads
// that sleep on the real eventfd.
#include "ipc/ring.h"

#include <algorithm>
#include <thread>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

constexpr size_t kCellPayload = kSubmissionCellBytes - sizeof(RecordHead);

RecordHead head_of(uint64_t request) {
  RecordHead head{};
  head.type = static_cast<uint16_t>(RecordType::kNoop);
  head.request = request;
  head.deadline_ns = 1;
  return head;
}

// Bytes that name their request, so that a mix-up shows.
std::vector<std::byte> payload_of(uint64_t request, size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(request * 31 + i);
  return payload;
}

class Rings : public ::testing::Test {
 protected:
  SmallSession session;
  SubmissionProducer producer{session.memory};
  SubmissionConsumer consumer{session.memory};
  CompletionProducer answers{session.memory};
  CompletionConsumer reader{session.memory};
  alignas(16) std::byte payload[kRequestBytesMax];
  RecordHead head{};
  uint32_t length = 0;

  bool push(uint64_t request, size_t bytes = 10) {
    return producer.push(head_of(request), payload_of(request, bytes));
  }
  void expect_pop(uint64_t request, size_t bytes = 10) {
    const auto got = consumer.pop(head, payload, length);
    ASSERT_TRUE(got.ok()) << got.status().text();
    ASSERT_EQ(*got, 1);
    EXPECT_EQ(head.request, request);
    const auto wanted = payload_of(request, bytes);
    ASSERT_EQ(length, bytes);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), payload));
  }
  void expect_empty() {
    const auto got = consumer.pop(head, payload, length);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(*got, 0);
  }
};

TEST_F(Rings, NothingIsVisibleBeforePublish) {
  ASSERT_TRUE(push(1));
  EXPECT_FALSE(consumer.has_records());
  expect_empty();
  producer.publish();
  EXPECT_TRUE(consumer.has_records());
  expect_pop(1);
  expect_empty();
  EXPECT_FALSE(consumer.has_records());
}

TEST_F(Rings, RecordsKeepTheirOrderThroughManyWraps) {
  uint64_t pushed = 0, popped = 0;
  while (popped < 1000) {
    for (uint64_t i = 0; i <= pushed % 8 && pushed - popped < 8; ++i, ++pushed) {
      ASSERT_TRUE(push(pushed, pushed % kCellPayload));
    }
    producer.publish();
    for (; popped < pushed; ++popped) expect_pop(popped, popped % kCellPayload);
    consumer.publish_consumed();
  }
}

TEST_F(Rings, AFullRingRefusesUntilConsumedIsPublished) {
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(push(i));
  EXPECT_FALSE(push(8));
  producer.publish();
  expect_pop(0);
  EXPECT_FALSE(push(8));  // popped, but its cell isn't given back yet
  consumer.publish_consumed();
  EXPECT_TRUE(push(8));
  EXPECT_FALSE(push(9));
  producer.publish();
  for (uint64_t i = 1; i <= 8; ++i) expect_pop(i);
}

TEST_F(Rings, WhatDoesNotFitACellGoesThroughTheArena) {
  const size_t sizes[] = {0, kCellPayload, kCellPayload + 1, kRequestBytesMax};
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(push(i, sizes[i]));
    producer.publish();
    expect_pop(i, sizes[i]);
    EXPECT_EQ(head.arena_length > 0, sizes[i] > kCellPayload);
    consumer.publish_consumed();
  }
}

TEST_F(Rings, AnArenaBlockIsReusedOnlyAfterItsRecordWasConsumed) {
  ASSERT_TRUE(push(1, 5000));
  ASSERT_TRUE(push(2, 5000));
  EXPECT_FALSE(push(3, 5000));
  EXPECT_TRUE(push(3, 50));  // cells are left
  producer.publish();
  expect_pop(1, 5000);
  consumer.publish_consumed();
  EXPECT_TRUE(push(4, 6000));
  EXPECT_FALSE(push(5, 6000));
  producer.publish();
  expect_pop(2, 5000);
  expect_pop(3, 50);
  expect_pop(4, 6000);
}

TEST_F(Rings, PublishTellsWhetherTheDaemonSleeps) {
  session.memory.info().daemon_sleeps.store(1);
  EXPECT_FALSE(producer.publish());  // nothing new: no kick
  ASSERT_TRUE(push(1));
  EXPECT_TRUE(producer.publish());
  session.memory.info().daemon_sleeps.store(0);
  ASSERT_TRUE(push(2));
  EXPECT_FALSE(producer.publish());
}

CompletionHead answer_of(uint64_t request) {
  CompletionHead head{};
  head.request = request;
  return head;
}

TEST_F(Rings, AnswersArriveWithTheirPayload) {
  Bytes bytes;
  EXPECT_EQ(reader.peek(bytes), nullptr);
  ASSERT_TRUE(*answers.reserve(1));
  answers.push(answer_of(5), as_bytes("done"));
  EXPECT_EQ(reader.peek(bytes), nullptr);
  answers.publish();
  const CompletionHead* answer = reader.peek(bytes);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->request, 5u);
  EXPECT_EQ(answer->length, 4u);
  EXPECT_EQ(as_text(bytes), "done");
  reader.consume();
  EXPECT_EQ(reader.peek(bytes), nullptr);
}

TEST_F(Rings, AnswersKeepTheirOrderThroughManyWraps) {
  for (uint64_t i = 0; i < 1000; i += 4) {
    ASSERT_TRUE(*answers.reserve(4));
    for (uint64_t k = 0; k < 4; ++k) {
      answers.push(answer_of(i + k), payload_of(i + k, (i + k) * 4 % 4033));
    }
    answers.publish();
    for (uint64_t k = 0; k < 4; ++k) {
      Bytes bytes;
      const CompletionHead* answer = reader.peek(bytes);
      ASSERT_NE(answer, nullptr);
      EXPECT_EQ(answer->request, i + k);
      EXPECT_TRUE(std::ranges::equal(bytes, payload_of(i + k, (i + k) * 4 % 4033)));
      reader.consume();
    }
  }
}

TEST_F(Rings, TheCreditIsTheRingAndComesBackWithReading) {
  EXPECT_TRUE(*answers.reserve(5));
  EXPECT_TRUE(*answers.reserve(3));
  EXPECT_FALSE(*answers.reserve(1));
  answers.unreserve(1);
  EXPECT_TRUE(*answers.reserve(1));
  for (uint64_t i = 0; i < 8; ++i) answers.push(answer_of(i), {});
  EXPECT_FALSE(*answers.reserve(1));  // pushed cells are as taken as reserved ones
  answers.publish();
  EXPECT_FALSE(*answers.reserve(1));  // and so are unread ones
  Bytes bytes;
  ASSERT_NE(reader.peek(bytes), nullptr);
  reader.consume();
  EXPECT_TRUE(*answers.reserve(1));
  EXPECT_FALSE(*answers.reserve(1));
  EXPECT_FALSE(*answers.reserve(UINT32_MAX));
}

TEST_F(Rings, PublishRingsTheDoorbellAndSaysWhoSleeps) {
  session.memory.cell_page().client_sleeps.store(3);
  EXPECT_EQ(answers.publish(), 0u);  // nothing new
  EXPECT_EQ(session.memory.info().doorbell.load(), 0u);
  ASSERT_TRUE(*answers.reserve(2));
  answers.push(answer_of(1), {});
  EXPECT_EQ(answers.publish(), 3u);
  EXPECT_EQ(session.memory.info().doorbell.load(), 1u);
  session.memory.cell_page().client_sleeps.store(0xfffffff0u);  // only the two bits count
  answers.push(answer_of(2), {});
  EXPECT_EQ(answers.publish(), 0u);
  EXPECT_EQ(session.memory.info().doorbell.load(), 2u);
}

TEST(SessionMemory, FencesAndClaimsLieBehindTheCellPageAndNowhereElse) {
  SmallSession session;
  const SessionMemory& memory = session.memory;
  auto* base = reinterpret_cast<std::atomic<uint64_t>*>(memory.cells + sizeof(CellPage));
  EXPECT_EQ(memory.fence(0), base);
  EXPECT_EQ(memory.fence(15), base + 15);
  EXPECT_EQ(memory.fence(16), nullptr);
  EXPECT_EQ(memory.fence(kNoIndex), nullptr);
  EXPECT_EQ(memory.claim(0), base + 16);
  EXPECT_EQ(memory.claim(63), base + 16 + 63);
  EXPECT_EQ(memory.claim(64), nullptr);
  EXPECT_LE(reinterpret_cast<std::byte*>(base + 16 + 64),
            memory.cells + cells_bytes(kSmallGeometry));
}

TEST(RingsInTwoThreads, NoWakeUpIsLost) {
  constexpr uint64_t kRecords = 20000;
  SmallSession session;
  std::thread client([&] {
    SubmissionProducer producer(session.memory);
    for (uint64_t i = 0; i < kRecords; ++i) {
      const size_t bytes = i % 64 == 0 ? 3000 : i % 100;
      while (!producer.push(head_of(i), payload_of(i, bytes))) {
        if (producer.publish()) eventfd_signal(session.share.kick.get());
        std::this_thread::yield();
      }
      if (i % 3 == 0 && producer.publish()) eventfd_signal(session.share.kick.get());
    }
    if (producer.publish()) eventfd_signal(session.share.kick.get());
  });
  SubmissionConsumer consumer(session.memory);
  std::vector<std::byte> payload(kRequestBytesMax);
  RecordHead head{};
  uint32_t length = 0;
  bool lost = false;
  for (uint64_t next = 0; next < kRecords && !lost;) {
    const auto got = consumer.pop(head, payload.data(), length);
    ASSERT_TRUE(got.ok()) << got.status().text();
    if (*got == 1) {
      ASSERT_EQ(head.request, next++);
      ASSERT_EQ(length, head.request % 64 == 0 ? 3000 : head.request % 100);
      if (length > 0) {
        ASSERT_EQ(payload[0], static_cast<std::byte>(head.request * 31));
      }
      continue;
    }
    consumer.publish_consumed();
    auto& sleeps = session.memory.info().daemon_sleeps;
    sleeps.store(1, std::memory_order_seq_cst);
    if (!consumer.has_records()) lost = !wait_for(session.share.kick.get());
    sleeps.store(0, std::memory_order_seq_cst);
    eventfd_drain(session.share.kick.get());
  }
  EXPECT_FALSE(lost) << "the client published and didn't kick a sleeping daemon";
  consumer.publish_consumed();
  client.join();
}

}  // namespace
}  // namespace kvsidecar
