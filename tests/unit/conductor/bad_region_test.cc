// SPDX-License-Identifier: Apache-2.0
// Goal: memory that can't be used is refused with field, value and remedy before anything copies,
// and memory that vanishes later ends that session only. Method: the fd or the numbers are wrong in
// one thing; a bystander goes on.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kBytes = 1 << 20;

class BadRegion : public Rig {
 protected:
  BadRegion() { with_store = false; }
  void SetUp() override {
    start();
    a_ = engine();
    bystander_ = engine();
  }
  void TearDown() override {
    EXPECT_TRUE(node->conductor().session_alive(bystander_->session()));
    EXPECT_EQ(put(*bystander_, 5), Code::kOk);
    EXPECT_EQ(get(*bystander_, 5), Code::kOk);
    a_.reset();
    bystander_.reset();
  }
  Answer offer(UniqueFd fd, uint64_t bytes = kBytes, uint64_t nonce = 0, uint64_t offset = 0) {
    EXPECT_TRUE(node->conductor().offer_fd(a_->session(), ++token_, std::move(fd)));
    return a_->wait(a_->send(RecordType::kRegisterRegion,
                             RegisterRegionRequest{token_, 0, bytes, offset, 0, nonce}));
  }
  static void expect(const Answer& answer, Code code, const std::vector<std::string>& words) {
    EXPECT_EQ(answer.status(), code) << answer.text;
    for (const std::string& word : words)
      EXPECT_NE(answer.text.find(word), std::string::npos)
          << "no '" << word << "' in: " << answer.text;
  }
  static UniqueFd memory(uint64_t bytes) { return make_sealed_memfd("test", bytes).take(); }
  Answer lay_out(std::vector<LayoutRun> runs, uint32_t blocks = 4) {
    return a_->wait(a_->send(RecordType::kRegisterLayout, RegisterLayoutRequest{blocks, runs}));
  }

  std::unique_ptr<Engine> a_, bystander_;
  uint64_t token_ = 1000;
};

TEST_F(BadRegion, AFileThatIsTooShort) {
  expect(offer(memory(kBytes / 2)), Code::kInvalid,
         {"ends beyond the file's " + std::to_string(kBytes / 2), "register less"});
}

TEST_F(BadRegion, ASparseFile) {
  UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  expect(offer(std::move(fd)), Code::kInvalid, {"sparse", "0 of", "fallocate"});
}

TEST_F(BadRegion, APipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  expect(offer(std::move(reader)), Code::kInvalid, {"region fd"});
}

// Its pages come from whoever serves its file system, who may never answer.
TEST_F(BadRegion, AFileThatIsNoMemoryIsRefusedBeforeAnythingTouchesIt) {
  UniqueFd fd(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_TRUE(node->conductor().offer_fd(a_->session(), ++token_, std::move(fd)));
  const uint64_t request = a_->send(RecordType::kRegisterRegion,
                                    RegisterRegionRequest{token_, 0, kBytes, 0, 0, 0});
  node->conductor().step();  // no reaper turns
  ASSERT_TRUE(a_->answer(request).has_value());
  expect(*a_->answer(request), Code::kInvalid,
         {"region fd", "token", "memfd", "tmpfs", "register_staged"});
}

TEST_F(BadRegion, AnOffsetThatOverflows) {
  expect(offer(memory(kBytes), kBytes, 0, UINT64_MAX - 4096), Code::kInvalid,
         {"offset is " + std::to_string(UINT64_MAX - 4096), "2^63"});
}

TEST_F(BadRegion, AStaleMappingIsFoundByTheEcho) {
  const Answer answer = offer(memory(kBytes), kBytes, /*nonce=*/0x1234);  // the file holds zeros
  expect(answer, Code::kStaleMapping, {"echo", "register the memory again"});
}

TEST_F(BadRegion, MemoryThatVanishesDuringACopyEndsThatSessionOnly) {
  UniqueFd fd(::memfd_create("shrinks", MFD_CLOEXEC));
  ASSERT_EQ(::fallocate(fd.get(), 0, 0, kBytes), 0);
  const int keep = ::dup(fd.get());
  UniqueFd kept(keep);
  const Answer region = offer(std::move(fd));
  ASSERT_EQ(region.status(), Code::kOk) << region.text;
  const Answer layout = lay_out({{region.head.handle, 0, kPage, kPage}});
  ASSERT_EQ(layout.status(), Code::kOk) << layout.text;
  ASSERT_EQ(::ftruncate(kept.get(), 0), 0);
  const Answer put = a_->wait(a_->put({}, {1}, layout.head.handle, {1}));
  EXPECT_EQ(put.status(), Code::kMemoryFault);
  ASSERT_TRUE(node->settle());
  EXPECT_FALSE(node->conductor().session_alive(a_->session()));
  EXPECT_EQ(place(*bystander_, 1), Place::kMiss);
  EXPECT_EQ(node->pool().usage().slots_filling, 0u);
}

TEST_F(BadRegion, ALayoutOverAnUnknownRegion) {
  expect(lay_out({{a_->region + 50, 0, kPage, kPage}}), Code::kUnknownHandle,
         {"run 0 of layout", "region handle", "not this session's"});
  expect(lay_out({{bystander_->region, 0, kPage, kPage}}), Code::kUnknownHandle, {"run 0"});
}

TEST_F(BadRegion, ALayoutThatLeavesItsRegion) {
  expect(lay_out({{a_->region, 0, kPage, kPage}}, 65), Code::kInvalid,
         {"run 0 of layout", "leave the region's", "block 64", "lower blocks"});
  expect(lay_out({{a_->region, 4ull << 20, kPage, kPage}}, 1), Code::kInvalid, {"base"});
}

// O11-03
TEST_F(BadRegion, ALayoutWhoseNumbersOverflow) {
  expect(lay_out({{a_->region, UINT64_MAX - 8, kPage, kPage}}, 1), Code::kInvalid, {"2^64"});
  expect(lay_out({{a_->region, 0, UINT64_MAX / 2, kPage}}, 4), Code::kInvalid,
         {"block_stride", "2^64"});
}

TEST_F(BadRegion, ALayoutWithoutRunsBlocksOrBytes) {
  expect(lay_out({}), Code::kInvalid, {"runs is 0"});
  expect(lay_out({{a_->region, 0, kPage, kPage}}, 0), Code::kInvalid, {"blocks is 0"});
  expect(lay_out({{a_->region, 0, kPage, 0}}), Code::kInvalid, {"run_length is 0"});
}

TEST_F(BadRegion, MoreRegionsThanASessionMayHave) {
  a_.reset();
  bystander_.reset();
  stop();
  options.limits.regions_per_session = 2;
  SetUp();
  EXPECT_EQ(offer(memory(kBytes)).status(), Code::kOk);
  expect(offer(memory(kBytes)), Code::kOverQuota, {"regions", "2", "regions_per_session"});
}

TEST_F(BadRegion, ASessionThatDiesDuringItsImportGivesItsQuotaBack) {
  Permissions allowed = everything();
  allowed.entry = 3;
  allowed.region_bytes_max = 6ull << 20;
  for (int round = 0; round < 5; ++round) {
    Engine dying(*node, clock, 4ull << 20, allowed);
    dying.register_region();
    node->conductor().step();  // the import is on its way
    dying.die();
    ASSERT_TRUE(node->settle());
  }
  auto next = engine(fields_of(kPage), {}, allowed);
  EXPECT_EQ(put(*next, 8), Code::kOk);
}

TEST_F(BadRegion, ItsQuotaIsHeldWhileACopyUsesIt) {
  Permissions allowed = everything();
  allowed.entry = 3;
  allowed.region_bytes_max = 6ull << 20;
  auto first = engine(fields_of(kPage), {}, allowed);
  Engine second(*node, clock, 4ull << 20, allowed);
  first->put({}, {1}, first->layout, {0});
  node->conductor().step();  // the copy is with its worker
  first->die();
  uint64_t request = second.register_region();
  node->conductor().step();
  ASSERT_TRUE(second.answer(request).has_value());
  expect(*second.answer(request), Code::kOverQuota, {"region_bytes_max"});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(second.wait(second.register_region()).status(), Code::kOk);
}

}  // namespace
}  // namespace kvsidecar::testing
