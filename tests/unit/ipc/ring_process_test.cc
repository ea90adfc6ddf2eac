// SPDX-License-Identifier: Apache-2.0
// Goal: a client process that is killed in the middle of its work leaves only whole records, and
// one that rewrites a record while it is read gets nothing inconsistent past decode().
// Method: forked children over the real shared memory; the parent waits on the kick eventfd, kills,
// and checks every record's own sum. The rewriting child changes random words all the time.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <functional>

#include "ipc/codec.h"
#include "ipc/ring.h"
#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

// A child process that works until it is killed. Ends with the test, whatever happens.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// FNV-1a over request number and bytes.
uint64_t sum_of(uint64_t request, Bytes bytes) {
  uint64_t sum = 14695981039346656037ull ^ request;
  for (const std::byte b : bytes) sum = (sum ^ static_cast<uint64_t>(b)) * 1099511628211ull;
  return sum;
}

constexpr size_t kRecordSizes[] = {8, 100, 1984, 1985, 9000};

[[noreturn]] void produce_forever(const SessionShare& share) {
  SubmissionProducer producer(share.memory());
  std::vector<std::byte> payload;
  for (uint64_t request = 1;; ++request) {
    payload.assign(kRecordSizes[request % 5], static_cast<std::byte>(request));
    const uint64_t sum = sum_of(request, Bytes(payload).subspan(8));
    std::memcpy(payload.data(), &sum, 8);
    RecordHead head{};
    head.request = request;
    while (!producer.push(head, payload)) {
      if (producer.publish()) eventfd_signal(share.kick.get());
    }
    if (producer.publish()) eventfd_signal(share.kick.get());
  }
}

// Pops one record and checks it; false when none is there.
bool pop_whole(SubmissionConsumer& consumer, std::vector<std::byte>& payload, uint64_t request) {
  RecordHead head{};
  uint32_t length = 0;
  const auto got = consumer.pop(head, payload.data(), length);
  EXPECT_TRUE(got.ok()) << got.status().text();
  if (!got || *got == 0) return false;
  uint64_t sum = 0;
  std::memcpy(&sum, payload.data(), 8);
  EXPECT_EQ(head.request, request);
  EXPECT_EQ(length, kRecordSizes[request % 5]);
  EXPECT_EQ(sum, sum_of(request, Bytes(payload).first(length).subspan(8))) << "a torn record";
  return true;
}

TEST(KilledClient, LeavesNoTornRecord) {
  constexpr uint64_t kKills = 40;
  std::vector<std::byte> payload(kRequestBytesMax);
  for (uint64_t round = 0; round < kKills; ++round) {
    SmallSession session;
    Child child([&] { produce_forever(session.share); });
    SubmissionConsumer consumer(session.memory);
    auto& sleeps = session.memory.info().daemon_sleeps;
    const uint64_t kill_at = 20 + round * 7;
    uint64_t next = 1;
    while (next < kill_at && !HasFailure()) {
      if (pop_whole(consumer, payload, next)) {
        ++next;
        // Seldom, so that the ring is sometimes full and sometimes empty when the kill comes.
        if (next % (1 + round % 8) == 0) consumer.publish_consumed();
        continue;
      }
      consumer.publish_consumed();
      sleeps.store(1);
      if (!consumer.has_records()) {
        ASSERT_TRUE(wait_for(session.share.kick.get()));
      }
      sleeps.store(0);
      eventfd_drain(session.share.kick.get());
    }
    child.kill();
    while (!HasFailure() && pop_whole(consumer, payload, next)) ++next;
    ASSERT_FALSE(HasFailure()) << "round " << round;
    EXPECT_FALSE(consumer.has_records());
  }
}

// A get of 4 items with 2 runs each.
Encoded get_record() {
  static const auto kKeys = as_bytes("key-0key-1key-2key-3");
  static const Run kRuns[] = {{1, 0, 64}, {1, 64, 64}, {2, 0, 64}, {2, 64, 64},
                              {3, 0, 64}, {3, 64, 64}, {4, 0, 64}, {4, 64, 64}};
  static const RunItem kItems[] = {{0, 2, 0, 0}, {2, 2, 1, 0}, {4, 2, 2, 0}, {6, 2, 3, 0}};
  GetRequest get;
  get.keys = {kKeys, 5};
  get.items.run_items = kItems;
  get.items.runs = kRuns;
  Encoded record;
  encode(get, record);
  return record;
}

// Changes one random word of the record in every cell, and puts it right again, for ever.
[[noreturn]] void rewrite_forever(std::byte* cells, uint32_t count, const Encoded& record) {
  uint64_t random = 88172645463325252ull;
  for (;;) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const size_t word = random % (record.size() / 4);
    const auto garbage = static_cast<uint32_t>(random >> ((random >> 60) + 16));
    for (uint32_t cell = 0; cell < count; ++cell) {
      auto* target = reinterpret_cast<volatile uint32_t*>(cells + cell * kSubmissionCellBytes +
                                                          sizeof(RecordHead)) +
                     word;
      const uint32_t right = *target;
      *target = garbage;
      *target = right;
    }
  }
}

bool inside(const void* data, size_t bytes, const std::vector<std::byte>& buffer) {
  const auto* start = static_cast<const std::byte*>(data);
  return bytes == 0 || (start >= buffer.data() && start + bytes <= buffer.data() + buffer.size());
}

void expect_consistent(const GetRequest& get, const std::vector<std::byte>& buffer) {
  ASSERT_TRUE(inside(get.keys.bytes.data(), get.keys.bytes.size(), buffer));
  ASSERT_TRUE(inside(get.items.runs.data(), get.items.runs.size_bytes(), buffer));
  ASSERT_TRUE(inside(get.items.run_items.data(), get.items.run_items.size_bytes(), buffer));
  ASSERT_EQ(size_t{get.keys.count()} * get.keys.key_bytes, get.keys.bytes.size());
  ASSERT_EQ(get.items.count(), get.keys.count());
  for (const RunItem& item : get.items.run_items) {
    ASSERT_LE(item.run_count, kRunsMax);
    ASSERT_LE(uint64_t{item.first_run} + item.run_count, get.items.runs.size());
  }
}

// O11-08
TEST(RewritingClient, NeverGetsInconsistentSpansPastDecode) {
  SmallSession session;
  const Encoded record = get_record();
  std::byte* cells = session.memory.submission + sizeof(SubmissionHead);
  RecordHead head{};
  head.length = static_cast<uint32_t>(record.size());
  for (uint32_t cell = 0; cell < 8; ++cell) {
    std::memcpy(cells + cell * kSubmissionCellBytes, &head, sizeof head);
    std::memcpy(cells + cell * kSubmissionCellBytes + sizeof head, record.data(), record.size());
  }
  Child child([&] { rewrite_forever(cells, 8, record); });
  SubmissionConsumer consumer(session.memory);
  std::vector<std::byte> payload(kRequestBytesMax);
  uint64_t accepted = 0, refused = 0;
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  for (uint64_t i = 0; i < 200'000 || refused == 0 || accepted == 0; ++i) {
    session.memory.submission_head().published.store(i + 1);
    uint32_t length = 0;
    ASSERT_EQ(*consumer.pop(head, payload.data(), length), 1);
    const auto get = decode_get(Bytes(payload).first(length));
    if (get) {
      ++accepted;
      expect_consistent(*get, payload);
      if (HasFatalFailure()) return;
    } else {
      ++refused;
    }
    if (monotonic_ns() > deadline_ns) break;
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(refused, 0u) << "the child was never seen in the middle of a change";
}

}  // namespace
}  // namespace kvsidecar
