// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/open_files.h"

#include <fcntl.h>

namespace kvsidecar::emulator {

using fake3fs::ChunkMap;
using fake3fs::DataFile;
using fake3fs::Storage;

// Time stamps alone are too coarse: what fills a hole changes the blocks, what grows it the size.
struct OpenFile::Look {
  std::mutex lock;
  struct stat seen {};

  bool is(const struct stat& now) {
    std::lock_guard hold(lock);
    return seen.st_size == now.st_size && seen.st_blocks == now.st_blocks &&
           seen.st_ctim.tv_sec == now.st_ctim.tv_sec && seen.st_ctim.tv_nsec == now.st_ctim.tv_nsec;
  }
  void take(int fd) {
    std::lock_guard hold(lock);
    ::fstat(fd, &seen);
  }
};

class OpenFile::Watched final : public Storage {
 public:
  Watched(std::shared_ptr<const UniqueFd> fd, std::shared_ptr<Look> look)
      : fd_(std::move(fd)),
        inner_(fake3fs::storage_of_fd(UniqueFd(::fcntl(fd_->get(), F_DUPFD_CLOEXEC, 0)))),
        look_(std::move(look)) {}
  int64_t read(uint64_t offset, std::span<std::byte> into) override {
    return inner_->read(offset, into);
  }
  int64_t write(uint64_t offset, std::span<const std::byte> from) override {
    const int64_t written = inner_->write(offset, from);
    look_->take(fd_->get());
    return written;
  }
  int truncate(uint64_t length) override {
    const int answer = inner_->truncate(length);
    look_->take(fd_->get());
    return answer;
  }
  int punch(uint64_t offset, uint64_t bytes) override {
    const int answer = inner_->punch(offset, bytes);
    look_->take(fd_->get());
    return answer;
  }

 private:
  const std::shared_ptr<const UniqueFd> fd_;
  const std::unique_ptr<Storage> inner_;
  const std::shared_ptr<Look> look_;
};

OpenFile::OpenFile(UniqueFd fd, uint64_t chunk_bytes, fake3fs::Faults& faults)
    : fd_(std::make_shared<const UniqueFd>(std::move(fd))),
      chunk_bytes_(chunk_bytes),
      faults_(faults) {}

bool OpenFile::is_there() const {
  struct stat now {};
  return ::fstat(fd_->get(), &now) == 0;
}

std::shared_ptr<DataFile> OpenFile::data() {
  struct stat now {};
  ::fstat(fd_->get(), &now);
  if (!S_ISREG(now.st_mode)) return nullptr;
  std::lock_guard hold(lock_);
  // Not while a job has it: what that job writes would be missing in the new map, and the next
  // write's look at the file would hide it.
  const bool in_use = data_ != nullptr && data_.use_count() > 1;
  if (!in_use && (data_ == nullptr || !look_->is(now))) {
    look_ = std::make_shared<Look>();
    look_->seen = now;
    ChunkMap chunks = fake3fs::chunks_of_file(fd_->get(), chunk_bytes_);
    // A length beyond all data was set by a truncation, which makes the last chunk.
    const uint64_t length = static_cast<uint64_t>(now.st_size);
    if (length > chunks.end()) chunks.extend(length);
    data_ = std::make_shared<DataFile>(std::make_unique<Watched>(fd_, look_), std::move(chunks),
                                       length, faults_.space());
  }
  if (now.st_nlink == 0 && faults_.is_on("gc.at_unlink")) data_->collect();
  return data_;
}

std::shared_ptr<OpenFile> OpenFiles::open(int fd, uint64_t inode) {
  std::lock_guard hold(lock_);
  std::weak_ptr<OpenFile>& place = files_[inode];
  if (std::shared_ptr<OpenFile> known = place.lock(); known != nullptr && known->is_there())
    return known;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  UniqueFd own(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!own) own.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!own) return nullptr;
  auto made = std::make_shared<OpenFile>(std::move(own), chunk_bytes_, faults_);
  place = made;
  return made;
}

void OpenFiles::forget_all() {
  std::lock_guard hold(lock_);
  files_.clear();
}

std::shared_ptr<DataFile> OpenFiles::find(uint64_t inode) {
  std::shared_ptr<OpenFile> file;
  {
    std::lock_guard hold(lock_);
    const auto found = files_.find(inode);
    if (found != files_.end()) file = found->second.lock();
  }
  return file == nullptr ? nullptr : file->data();
}

}  // namespace kvsidecar::emulator
