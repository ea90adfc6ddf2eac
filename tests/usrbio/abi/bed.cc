// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/bed.h"

#include <fcntl.h>

#include <atomic>
#include <cstring>
#include <filesystem>

namespace kvsidecar::abi {

namespace {

std::unique_ptr<Subject>& slot() {
  static std::unique_ptr<Subject> made;
  return made;
}

}  // namespace

Subject& subject() { return *slot(); }
void set_subject(std::unique_ptr<Subject> made) { slot() = std::move(made); }

std::string Iov::uuid() const {
  char written[37];
  char* at = written;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    at += std::snprintf(at, 3, "%02x", id[i]);
  }
  return {written, 36};
}

std::string Iov::link() const {
  std::string key = uuid();
  if (block_size != 0) key += ".b" + std::to_string(block_size);
  return std::string(mount_point) + "/3fs-virt/iovs/" + key;
}

void Bed::SetUp() {
  static std::atomic<int> made{0};
  folder_ =
      mount() + "/kvsidecar.test-abi-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
  std::filesystem::create_directory(folder_);
}

void Bed::TearDown() {
  subject().set_faults("");
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

UniqueFd Bed::open(const std::string& name, int flags) const {
  UniqueFd opened(::open(path(name).c_str(), flags | O_CLOEXEC, 0644));
  EXPECT_GE(opened.get(), 0) << path(name) << ": " << std::strerror(errno);
  return opened;
}

UniqueFd Bed::file(const std::string& name, std::span<const uint8_t> bytes) const {
  UniqueFd made = open(name, O_RDWR | O_CREAT | O_EXCL);
  EXPECT_EQ(::pwrite(made.get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(::fsync(made.get()), 0);
  return made;
}

UniqueFd Bed::sparse_file(const std::string& name, uint64_t bytes,
                          const std::vector<uint64_t>& chunks) const {
  UniqueFd made = open(name, O_RDWR | O_CREAT | O_EXCL);
  for (const uint64_t nth : chunks) {
    const std::vector<uint8_t> content = pattern(std::min(chunk(), bytes - nth * chunk()), nth + 1);
    EXPECT_EQ(
        ::pwrite(made.get(), content.data(), content.size(), static_cast<off_t>(nth * chunk())),
        static_cast<ssize_t>(content.size()));
  }
  EXPECT_EQ(::fsync(made.get()), 0);
  return made;
}

void Bed::make(Iov& iov, size_t bytes, size_t block_size) const {
  ASSERT_EQ(library_.iovcreate(&iov, mount().c_str(), bytes, block_size, -1), 0);
}

void Bed::make(Ring& ring, int entries, bool for_read, int io_depth, int timeout,
               uint64_t flags) const {
  ASSERT_EQ(
      library_.iorcreate4(&ring, mount().c_str(), entries, for_read, io_depth, timeout, -1, flags),
      0);
}

int Bed::prepare_read(const Ring& ring, const hf3fs_iov& iov, uint64_t iov_offset, int fd,
                      uint64_t offset, uint64_t bytes, uint64_t user) const {
  return library_.prep_io(&ring, &iov, true, iov.base + iov_offset, fd, offset, bytes, tag(user));
}

std::vector<hf3fs_cqe> Bed::wait(const Ring& ring, int count) const {
  std::vector<hf3fs_cqe> found(static_cast<size_t>(count));
  EXPECT_EQ(library_.wait_for_ios(&ring, found.data(), count, count, nullptr), count);
  return found;
}

std::vector<hf3fs_cqe> Bed::poll(const Ring& ring) const {
  std::vector<hf3fs_cqe> found(64);
  const timespec past{};
  const int count = library_.wait_for_ios(&ring, found.data(), 64, 0, &past);
  EXPECT_GE(count, 0);
  found.resize(static_cast<size_t>(std::max(count, 0)));
  return found;
}

int64_t Bed::one_read(const hf3fs_iov& iov, uint64_t iov_offset, int fd, uint64_t offset,
                      uint64_t bytes, uint64_t flags) const {
  Ring ring;
  make(ring, 1, true, 0, 0, flags);
  const int slot = prepare_read(ring, iov, iov_offset, fd, offset, bytes, 7);
  if (slot < 0) return slot;
  EXPECT_EQ(library_.submit_ios(&ring), 0);
  return wait(ring, 1)[0].result;
}

int64_t Bed::one_write(const hf3fs_iov& iov, uint64_t iov_offset, int fd, uint64_t offset,
                       uint64_t bytes) const {
  Ring ring;
  make(ring, 1, false);
  const int slot =
      library_.prep_io(&ring, &iov, false, iov.base + iov_offset, fd, offset, bytes, nullptr);
  if (slot < 0) return slot;
  EXPECT_EQ(library_.submit_ios(&ring), 0);
  return wait(ring, 1)[0].result;
}

std::vector<uint8_t> pattern(uint64_t bytes, uint64_t seed) {
  std::vector<uint8_t> made(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint8_t& byte : made) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return made;
}

timespec from_now_ms(int64_t ms) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const int64_t nanoseconds = time.tv_nsec + ms * 1'000'000;
  time.tv_sec += nanoseconds / 1'000'000'000;
  time.tv_nsec = nanoseconds % 1'000'000'000;
  return time;
}

bool has_passed(const timespec& time) {
  const timespec now = from_now_ms(0);
  return now.tv_sec != time.tv_sec ? now.tv_sec > time.tv_sec : now.tv_nsec >= time.tv_nsec;
}

size_t open_descriptors() {
  namespace fs = std::filesystem;
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

size_t inherited_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int flags = ::fcntl(std::stoi(entry.path().filename().string()), F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

}  // namespace kvsidecar::abi
