// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/job_runner.h"

#include <algorithm>
#include <cerrno>

#include "tests/usrbio/core/holes.h"

namespace kvsidecar::fake3fs {

struct JobRunner::Prepared {
  std::shared_ptr<const Buffer> buffer;
  std::shared_ptr<DataFile> file;
  std::span<std::byte> memory;  // of the whole request
  int error = 0;                // negative

  std::span<std::byte> moved(const IoFault& fault) const {
    return memory.first(std::min<uint64_t>(memory.size(), fault.bytes_max));
  }
};

JobRunner::Prepared JobRunner::prepare(const JobIo& io) {
  const IoArgs& args = io.submission.args;
  Prepared ready{.buffer = buffers_.find(args.buffer), .file = nullptr, .memory = {}};
  const auto fails = [&](int error) {
    ready.error = error;
    return ready;
  };
  if (io.fault.error != 0) return fails(-io.fault.error);
  if (ready.buffer == nullptr) return fails(-EINVAL);
  const std::span<std::byte> all = ready.buffer->bytes;
  if (args.bytes == 0 || args.buffer_offset > all.size() ||
      args.bytes > all.size() - args.buffer_offset)
    return fails(-EINVAL);
  const uint64_t block = ready.buffer->block_bytes;
  if (block > 0 && args.buffer_offset / block != (args.buffer_offset + args.bytes - 1) / block)
    return fails(-EINVAL);
  if (args.file_offset > static_cast<uint64_t>(INT64_MAX) - args.bytes) return fails(-EFBIG);
  ready.file = files_.find(args.inode);
  if (ready.file == nullptr) return fails(-EBADF);
  if (ready.buffer->unpinned) return fails(-EACCES);
  ready.memory = all.subspan(args.buffer_offset, args.bytes);
  return ready;
}

namespace {

bool any_overlap(std::vector<std::span<std::byte>> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i - 1].data() + ranges[i - 1].size() > ranges[i].data()) return true;
  return false;
}

}  // namespace

void JobRunner::run(Job& job) {
  std::vector<Prepared> prepared;
  prepared.reserve(job.ios.size());
  for (const JobIo& io : job.ios) prepared.push_back(prepare(io));
  if (job.ring->options().for_read)
    read(job, prepared);
  else
    for (size_t i = 0; i < job.ios.size(); ++i) write(job.ios[i], prepared[i]);
}

void JobRunner::read(Job& job, std::vector<Prepared>& prepared) {
  std::vector<std::span<std::byte>> targets;
  for (const Prepared& one : prepared)
    if (one.error == 0) targets.push_back(one.memory);
  const bool overlap = targets.size() > 1 && any_overlap(std::move(targets));
  const bool forbid_holes = (job.ring->options().flags & kFlagForbidHoles) != 0;
  HoleFolder folder(faults_.is_on("holes.folded"), forbid_holes);
  uint64_t bytes = 0;
  for (size_t i = 0; i < job.ios.size(); ++i) {
    JobIo& io = job.ios[i];
    Prepared& one = prepared[i];
    if (one.error == 0 && overlap) one.error = -EIO;
    if (one.error == 0) {
      const std::span<std::byte> into = one.moved(io.fault);
      auto pieces = one.file->pieces(io.submission.args.file_offset, into.size());
      one.error = one.file->move(io.submission.args.file_offset, into, pieces);
      const FoldedRead folded = folder.fold(pieces);
      io.result = folded.result;
      if (folded.result > 0) bytes += static_cast<uint64_t>(folded.result);
    }
    // The memory has no pages behind it: upstream couldn't have pinned it.
    if (one.error == -EFAULT) one.error = -EACCES;
    if (one.error != 0) io.result = one.error;
  }
  counts_.add("reads", static_cast<int64_t>(job.ios.size()));
  counts_.add("read_bytes", static_cast<int64_t>(bytes));
}

void JobRunner::write(JobIo& io, Prepared& prepared) {
  io.result = prepared.error;
  if (prepared.error == 0)
    io.result =
        prepared.file->write(io.submission.args.file_offset, prepared.moved(io.fault), false);
  if (io.result == -EFAULT) io.result = -EACCES;
  counts_.add("writes");
  counts_.add("written_bytes", std::max<int64_t>(io.result, 0));
}

}  // namespace kvsidecar::fake3fs
