// SPDX-License-Identifier: Apache-2.0
// Goal: what a peer is given can't shrink under us or be written where it may only read, and what a
// peer gives is seen for what it is.
// Method: real memfds, attacked with the calls a hostile peer has.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 64 * 1024;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

TEST(Memfd, ASealedOneCantChangeItsSizeOrSeals) {
  auto fd = make_sealed_memfd("test", kBytes);
  ASSERT_TRUE(fd.ok()) << fd.status().text();
  EXPECT_NE(::ftruncate(fd->get(), 0), 0);
  EXPECT_NE(::ftruncate(fd->get(), kBytes * 2), 0);
  EXPECT_NE(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  const auto facts = file_facts(fd->get());
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->bytes, kBytes);
  EXPECT_EQ(facts->seals & kSizeSeals, kSizeSeals);
  EXPECT_FALSE(facts->hugetlb);
}

TEST(Memfd, IsAllocatedAndClosedOnExec) {
  auto fd = make_memfd("test", kBytes);
  ASSERT_TRUE(fd.ok());
  EXPECT_GE(file_facts(fd->get())->allocated_bytes, kBytes);
  EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Memfd, IsNotExecutableWhereTheKernelKnowsHow) {
  const int probe = ::memfd_create("probe", MFD_CLOEXEC | 0x0008u);
  if (probe < 0) GTEST_SKIP() << "MFD_NOEXEC_SEAL is unknown to this kernel";
  ::close(probe);
  auto fd = make_memfd("test", kBytes);
  struct stat stat {};
  ASSERT_EQ(::fstat(fd->get(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 0111u, 0u);
}

TEST(Memfd, FutureWritesAreRefusedWhileTheOldMappingWrites) {
  auto fd = make_memfd("test", kBytes);
  ASSERT_TRUE(fd.ok());
  auto writer = MappedMemory::map(fd->get(), 0, kBytes, Access::kReadWrite);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(seal(fd->get(), true).ok());
  EXPECT_FALSE(MappedMemory::map(fd->get(), 0, kBytes, Access::kReadWrite).ok());
  EXPECT_LT(::pwrite(fd->get(), "x", 1, 0), 0);
  EXPECT_NE(::fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  auto reader = MappedMemory::map(fd->get(), 0, kBytes, Access::kReadOnly);
  ASSERT_TRUE(reader.ok()) << reader.status().text();
  writer->data()[5] = std::byte{42};
  EXPECT_EQ(reader->data()[5], std::byte{42});
  EXPECT_NE(::mprotect(reader->data(), kBytes, PROT_READ | PROT_WRITE), 0);
}

TEST(Memfd, OfNoBytesIsRefused) {
  expect_refused(make_memfd("empty", 0).status(), Code::kInvalid, "size");
  expect_refused(make_memfd("huge", UINT64_MAX).status(), Code::kInvalid, "size");
}

TEST(FileFacts, APipeIsNoFile) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  expect_refused(file_facts(in.get()).status(), Code::kInvalid, "regular file");
}

TEST(FileFacts, ASparseMemfdShowsItsHole) {
  const UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const auto facts = file_facts(fd.get());
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->bytes, kBytes);
  EXPECT_EQ(facts->allocated_bytes, 0u);
  EXPECT_EQ(facts->seals & kSizeSeals, 0);
}

TEST(FileFacts, AFileThatTakesNoSealsSaysSo) {
  char path[] = "/tmp/kvsidecar-facts-XXXXXX";
  const UniqueFd file(::mkostemp(path, O_CLOEXEC));
  ASSERT_TRUE(file);
  ::unlink(path);
  const auto facts = file_facts(file.get());
  ASSERT_TRUE(facts.ok()) << facts.status().text();
  // tmpfs files answer F_SEAL_SEAL, other file systems don't know seals.
  EXPECT_TRUE(facts->seals == -1 || facts->seals == F_SEAL_SEAL) << facts->seals;
  EXPECT_FALSE(file_facts(-1).ok());
}

TEST(Memfd, MemoryIsToldFromEveryOtherFile) {
  EXPECT_TRUE(is_memory_file(make_memfd("test", 4096)->get()));
  EXPECT_TRUE(is_memory_file(make_sealed_memfd("test", 4096)->get()));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  const UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  for (const int fd : {reader.get(), file.get(), -1}) EXPECT_FALSE(is_memory_file(fd));
}

TEST(Memfd, ADiscardedFdIsClosed) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  discard_fd(UniqueFd(ends[1]));
  char byte;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "the last writer has gone";
  discard_fd(UniqueFd());
}

// A socket whose last close waits until its other end is read or closed, inside another one, where
// nobody can tell it not to.
UniqueFd socket_that_lingers(std::vector<UniqueFd>& other_ends) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd sender(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), any, length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), any, &length), 0);
  const int small = 4096;
  (void)::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  EXPECT_EQ(::connect(sender.get(), any, length), 0);
  other_ends.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<char> much(1 << 16);
  while (::send(sender.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
  }
  const linger an_hour{1, 3600};
  EXPECT_EQ(::setsockopt(sender.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd out(ends[0]), in(ends[1]);
  const int sent[] = {sender.get()};
  const std::byte byte{};
  EXPECT_TRUE(send_message(out.get(), {&byte, 1}, sent).ok());
  return in;
}

TEST(Memfd, WhatIsDiscardedBehindHangingClosesIsClosedWhenTheyEnd) {
  std::vector<UniqueFd> other_ends;
  for (int i = 0; i < 20; ++i) discard_fd(socket_that_lingers(other_ends));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  discard_fd(UniqueFd(ends[1]));
  other_ends.clear();  // as when the process that holds them dies
  pollfd state{reader.get(), 0, 0};
  EXPECT_EQ(::poll(&state, 1, 20'000), 1) << "the last writer has gone";
}

}  // namespace
}  // namespace kvsidecar
