// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {

void SegmentFile::close() {
  if (!fd) return;
  if (door != nullptr) return door->close(std::move(fd));
  fd.reset();
}

SegmentFiles::SegmentFiles(StoreParts& parts, size_t open_max)
    : parts_(parts), open_max_(open_max) {}

SegmentFilePtr SegmentFiles::find(uint64_t id) const {
  const auto at = files_.find(id);
  return at == files_.end() ? nullptr : at->second;
}

SegmentFilePtr SegmentFiles::add(uint64_t id, uint64_t page_bytes) {
  auto& file = files_[id];
  KV_CHECK(file == nullptr);
  file = std::make_shared<SegmentFile>(parts_.door);
  file->id = id;
  file->page_bytes = page_bytes;
  parts_.counters->segments.store(files_.size(), std::memory_order_relaxed);
  return file;
}

void SegmentFiles::set_file_bytes(SegmentFile& file, uint64_t bytes) {
  if (file.unlinked) return;
  parts_.counters->used_bytes.fetch_add(bytes - file.file_bytes, std::memory_order_relaxed);
  file.file_bytes = bytes;
}

void SegmentFiles::forget(uint64_t id) {
  const SegmentFilePtr file = find(id);
  if (file == nullptr) return;
  set_file_bytes(*file, 0);
  files_.erase(id);
  parts_.counters->segments.store(files_.size(), std::memory_order_relaxed);
}

void SegmentFiles::with_open(const SegmentFilePtr& file, bool patient,
                             std::function<void(int error)> ready) {
  file->last_use = ++uses_;
  if (file->fd) return ready(0);
  file->waiting_for_open.push_back(std::move(ready));
  if (file->waiting_for_open.size() > 1) return;
  close_idle();
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kOpen;
  io->load = true;
  io->patient = patient;
  io->fd = parts_.folder_fd;
  io->path = segment_name(file->id);
  io->flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (parts_.io->direct() ? O_DIRECT : 0);
  const auto opened = [file](int error) {
    auto waiting = std::move(file->waiting_for_open);
    file->waiting_for_open.clear();
    for (auto& call : waiting) call(error);
  };
  io->done = [this, file, opened](int64_t result) {
    if (result < 0) return opened(static_cast<int>(-result));
    take_fd(file, static_cast<int>(result), opened);
  };
  parts_.io->start(std::move(io));
}

void SegmentFiles::take_fd(const SegmentFilePtr& file, int fd,
                           std::function<void(int error)> ready) {
  ++opened_;
  if (parts_.door == nullptr) {
    file->fd.reset(fd);
    return ready(0);
  }
  // Nobody may see it before it is registered: until then it is the errand's.
  auto held = std::make_shared<UniqueFd>(fd);
  parts_.door->opened(fd, [this, file, held, ready = std::move(ready)](int error) {
    if (error == 0)
      file->fd = std::move(*held);
    else
      parts_.door->close(std::move(*held));
    ready(error);
  });
}

// Closes the quarter of the idle descriptors that was used longest ago; O(files), once per quarter.
void SegmentFiles::close_idle() {
  if (opened_ < open_max_) return;
  std::vector<SegmentFile*> idle;
  for (auto& [id, file] : files_)
    if (file->fd && file.use_count() == 1) idle.push_back(file.get());
  const size_t closing = std::min(idle.size(), open_max_ / 4 + 1);
  std::partial_sort(
      idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(closing), idle.end(),
      [](const SegmentFile* a, const SegmentFile* b) { return a->last_use < b->last_use; });
  for (size_t i = 0; i < closing; ++i) idle[i]->close();
  opened_ = static_cast<size_t>(std::count_if(files_.begin(), files_.end(), [](const auto& entry) {
    return static_cast<bool>(entry.second->fd);
  }));
}

void SegmentFiles::unlink(uint64_t id, std::function<void(int error)> done) {
  const SegmentFilePtr file = find(id);
  if (file == nullptr) return done(ENOENT);
  file->unlinked = true;
  file->slots.clear_all();
  files_.erase(id);
  parts_.counters->segments.store(files_.size(), std::memory_order_relaxed);
  for (auto& left : std::exchange(left_over_, {})) remove(left, [](int) {});
  remove(file, std::move(done));
}

void SegmentFiles::remove(const SegmentFilePtr& file, std::function<void(int error)> done) {
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kUnlink;
  io->patient = true;
  io->fd = parts_.folder_fd;
  io->path = segment_name(file->id);
  io->done = [this, file, done = std::move(done)](int64_t result) {
    const int error = result < 0 && result != -ENOENT ? static_cast<int>(-result) : 0;
    if (error == 0)
      parts_.counters->used_bytes.fetch_sub(std::exchange(file->file_bytes, 0),
                                            std::memory_order_relaxed);
    else
      left_over_.push_back(file);
    done(error);
  };
  parts_.io->start(std::move(io));
}

}  // namespace kvsidecar
