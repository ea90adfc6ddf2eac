// SPDX-License-Identifier: Apache-2.0
// Goal: only memory that is there, and the client's to give, becomes a region; everything else is
// refused with a sentence. Method: one bad handle of each kind.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sidecar/device/host_device.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 256 * 1024;

// The refusal's sentence, after checking that it is one.
std::string refusal(MemoryHandle handle) {
  HostDevice device(1);
  Result<std::unique_ptr<Region>> region = device.import(std::move(handle));
  EXPECT_FALSE(region.ok());
  if (region.ok()) {
    device.close(region.take());
    return "";
  }
  EXPECT_EQ(region.status().code(), Code::kInvalid);
  EXPECT_NE(region.status().text().find(';'), std::string::npos) << "no remedy named";
  return region.status().text();
}

void expect_names(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(HostImport, AMissingFdIsRefused) {
  expect_names(refusal({MemoryKind::kHostFd, UniqueFd(), kBytes, 0}), "fd is missing");
}

TEST(HostImport, AKindThatTheHostDeviceDoesntKnowIsRefusedByNumber) {
  EngineMemory memory(kBytes);
  MemoryHandle handle = memory.handle();
  handle.kind = static_cast<MemoryKind>(9);
  expect_names(refusal(std::move(handle)), "kind is 9");
}

TEST(HostImport, ZeroBytesAreRefused) {
  EngineMemory memory(kBytes);
  expect_names(refusal(memory.handle(0, 0)), "bytes is 0");
}

TEST(HostImport, AnOffsetThatOverflowsIsRefused) {
  EngineMemory memory(kBytes);
  expect_names(refusal(memory.handle(~uint64_t{0} - 10, 100)), "overflows");
  expect_names(refusal(memory.handle(4096, ~uint64_t{0} - 100)), "overflows");
}

TEST(HostImport, AFileThatIsTooShortIsRefusedWithBothNumbers) {
  EngineMemory memory(kBytes);
  const std::string text = refusal(memory.handle(4096, kBytes));
  expect_names(text, std::to_string(kBytes) + " bytes");
  expect_names(text, "offset 4096");
}

TEST(HostImport, ASparseFileIsRefused) {
  UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  expect_names(refusal({MemoryKind::kHostFd, std::move(fd), kBytes, 0}), "sparse");
}

TEST(HostImport, AFileWithOneHoleAnywhereIsRefused) {
  EngineMemory memory(kBytes);
  ASSERT_EQ(::fallocate(memory.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 4096),
            0);
  expect_names(refusal(memory.handle()), "sparse");
  expect_names(refusal(memory.handle(131072, 131072)), "sparse");
}

TEST(HostImport, APipeIsRefused) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd writer(ends[1]);
  expect_names(refusal({MemoryKind::kHostFd, UniqueFd(ends[0]), 4096, 0}), "memfd");
}

TEST(HostImport, AHugePageFileWithoutPagesIsRefused) {
  UniqueFd fd(::memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
  if (!fd) GTEST_SKIP() << "this kernel has no huge pages";
  constexpr uint64_t kHuge = 2 << 20;
  ASSERT_EQ(::ftruncate(fd.get(), kHuge), 0);
  refusal({MemoryKind::kHostFd, std::move(fd), kHuge, 0});
}

TEST(HostImport, AnFdThatIsOnlyReadableIsRefused) {
  EngineMemory memory(kBytes);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.fd.get());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  expect_names(refusal({MemoryKind::kHostFd, std::move(fd), kBytes, 0}), "can't be mapped");
}

TEST(HostImport, SealedAndUnsealedFilesAreTaken) {
  for (const bool sealed : {false, true}) {
    EngineMemory memory(kBytes, sealed);
    HostDevice device(1);
    Result<std::unique_ptr<Region>> region = device.import(memory.handle());
    ASSERT_TRUE(region.ok()) << region.status().text();
    EXPECT_EQ((*region)->bytes(), kBytes);
    device.close(region.take());
  }
}

TEST(HostImport, AnInjectedFailureIsReportedOnceAndTheNextImportWorks) {
  EngineMemory memory(kBytes);
  NthFault faults("device.import", 1, EIO);
  HostDevice device(1, faults);
  EXPECT_EQ(device.import(memory.handle()).status().code(), Code::kInternal);
  Result<std::unique_ptr<Region>> region = device.import(memory.handle());
  ASSERT_TRUE(region.ok());
  device.close(region.take());
}

TEST(HostImport, ADeviceThatWasLostOnceStaysLost) {
  EngineMemory memory(kBytes);
  NthFault faults("device.import", 2, ENODEV);
  HostDevice device(1, faults);
  Result<std::unique_ptr<Region>> region = device.import(memory.handle());
  ASSERT_TRUE(region.ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(device.import(memory.handle()).status().code(), Code::kInternal);
  EXPECT_EQ(device.echo(**region, 0, 0, 1).code(), Code::kInternal);
  device.close(region.take());
}

}  // namespace
}  // namespace kvsidecar
