// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/uring.h"

#include <liburing.h>

#include <algorithm>
#include <cstring>

namespace kvsidecar {
namespace {
constexpr uint32_t kBuffersMax = 4096;
constexpr uint64_t kBufferBytesMax = 1ull << 30;  // the kernel's limit for one buffer
}  // namespace

Uring::Uring() : ring_(new io_uring{}) {}

Uring::~Uring() { io_uring_queue_exit(ring_.get()); }

Result<std::unique_ptr<Uring>> Uring::create(uint32_t entries, int event_fd) {
  auto ring = std::make_unique<io_uring>();
  const int made = io_uring_queue_init(entries, ring.get(), 0);
  if (made != 0)
    return Status(Code::kUnavailable,
                  std::string("io_uring is not available (") + std::strerror(-made) +
                      "); allow io_uring_setup in the container's seccomp profile and set "
                      "kernel.io_uring_disabled to 0");
  std::unique_ptr<Uring> owner(new Uring);
  owner->ring_ = std::move(ring);
  if (event_fd >= 0) {
    const int registered = io_uring_register_eventfd(owner->ring_.get(), event_fd);
    if (registered != 0) return os_error("registering the store's eventfd", -registered);
  }
  owner->table_ = io_uring_register_buffers_sparse(owner->ring_.get(), kBuffersMax) == 0;
  return owner;
}

io_uring_sqe* Uring::next_submission() { return io_uring_get_sqe(ring_.get()); }

int Uring::submit() { return io_uring_submit(ring_.get()); }

bool Uring::next_completion(Completion& completion) {
  io_uring_cqe* cqe = nullptr;
  if (io_uring_peek_cqe(ring_.get(), &cqe) != 0 || cqe == nullptr) return false;
  completion = {cqe->user_data, cqe->res};
  io_uring_cqe_seen(ring_.get(), cqe);
  return true;
}

bool Uring::has_completion() const { return io_uring_cq_ready(ring_.get()) > 0; }

Status Uring::register_memory(std::span<std::byte> memory) {
  if (!table_) return {Code::kUnavailable, "this kernel has no table of registered buffers"};
  for (size_t at = 0; at < memory.size(); at += kBufferBytesMax) {
    const auto piece = memory.subspan(at, std::min<size_t>(kBufferBytesMax, memory.size() - at));
    if (registered_.size() == kBuffersMax)
      return {Code::kUnavailable, "the table of registered buffers is full"};
    const iovec vector{piece.data(), piece.size()};
    const __u64 tag = 0;
    const int done = io_uring_register_buffers_update_tag(
        ring_.get(), static_cast<unsigned>(registered_.size()), &vector, &tag, 1);
    if (done != 1) return os_error("registering buffers", done < 0 ? -done : EAGAIN);
    registered_.push_back(piece);
  }
  return {};
}

int Uring::buffer_number(const std::byte* data, uint64_t bytes) const {
  for (size_t i = 0; i < registered_.size(); ++i) {
    const auto& known = registered_[i];
    if (data >= known.data() && data + bytes <= known.data() + known.size())
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace kvsidecar
