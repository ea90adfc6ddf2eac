// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "tests/usrbio/core/data_file.h"

namespace kvsidecar::fake3fs {
namespace {

class PlainStorage final : public Storage {
 public:
  explicit PlainStorage(UniqueFd fd) : fd_(std::move(fd)) {}

  int64_t read(uint64_t offset, std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = ::pread(fd_.get(), into.data() + done, into.size() - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -errno;
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return static_cast<int64_t>(done);
  }

  int64_t write(uint64_t offset, std::span<const std::byte> from) override {
    size_t done = 0;
    while (done < from.size()) {
      const ssize_t put = ::pwrite(fd_.get(), from.data() + done, from.size() - done,
                                   static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return done > 0 ? static_cast<int64_t>(done) : -errno;
      done += static_cast<size_t>(put);
    }
    return static_cast<int64_t>(done);
  }

  int truncate(uint64_t length) override {
    return ::ftruncate(fd_.get(), static_cast<off_t>(length)) == 0 ? 0 : -errno;
  }

  int punch(uint64_t offset, uint64_t bytes) override {
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const int result =
        ::fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    return result == 0 ? 0 : -errno;
  }

 private:
  const UniqueFd fd_;
};

}  // namespace

std::unique_ptr<Storage> storage_of_fd(UniqueFd fd) {
  return std::make_unique<PlainStorage>(std::move(fd));
}

}  // namespace kvsidecar::fake3fs
