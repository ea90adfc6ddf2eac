// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/copy/copy_rig.h"

#include <sys/mman.h>

#include <cstring>

namespace kvsidecar {
namespace {

template <typename T>
T must(Result<T> result) {
  if (!result) std::fprintf(stderr, "copy_bench: %s\n", result.status().text().c_str());
  KV_CHECK(result.ok());
  return result.take();
}

MappedMemory map_all(const UniqueFd& fd, uint64_t bytes) {
  MappedMemory memory = must(MappedMemory::map(fd.get(), 0, bytes, Access::kReadWrite));
  for (uint64_t i = 0; i < bytes; i += 8) {
    const uint64_t value = i * 0x9e3779b97f4a7c15;
    std::memcpy(memory.data() + i, &value, sizeof value);
  }
  return memory;
}

}  // namespace

CopyRig::CopyRig(uint32_t pages, uint64_t page_bytes, uint64_t run_bytes)
    : pages_(pages),
      page_bytes_(page_bytes),
      run_bytes_(run_bytes),
      engine_fd_(must(make_sealed_memfd("bench-engine", pages * page_bytes))),
      host_fd_(must(make_sealed_memfd("bench-host", pages * page_bytes))),
      engine_(map_all(engine_fd_, bytes())),
      host_(map_all(host_fd_, bytes())),
      device_(1),
      items_(pages),
      worker_(device_, real_clock(), 4, nullptr) {
  MemoryHandle handle{MemoryKind::kHostFd, UniqueFd(::dup(engine_fd_.get())), bytes(), 0};
  region_ = must(device_.import(std::move(handle)));
  layout_.blocks = pages;
  layout_.part_bytes = page_bytes;
  for (uint64_t r = 0; r < page_bytes / run_bytes; ++r)
    layout_.runs.push_back({region_.get(), r * pages * run_bytes, run_bytes, run_bytes});
  for (uint32_t i = 0; i < pages; ++i) {
    items_[i].host = host_.data() + i * page_bytes;
    items_[i].bytes = page_bytes;
    items_[i].layout = &layout_;
    items_[i].block = i;
  }
}

CopyRig::~CopyRig() { device_.close(std::move(region_)); }

void CopyRig::copy_by_worker(CopyKind kind) {
  KV_CHECK(worker_.submit({kind, 1, items_.data(), pages_, nullptr}));
  CopyDone done;
  while (!worker_.poll(done)) KV_CHECK(worker_.step());
  for (const CopyItem& item : items_) KV_CHECK(item.status == Code::kOk);
}

void CopyRig::copy_by_memcpy(Direction direction) {
  for (uint32_t page = 0; page < pages_; ++page) {
    std::byte* host = host_.data() + page * page_bytes_;
    for (const BlockLayout::Run& run : layout_.runs) {
      std::byte* const engine = engine_.data() + run.base + page * run.block_stride;
      if (direction == Direction::kStore)
        std::memcpy(host, engine, run_bytes_);
      else
        std::memcpy(engine, host, run_bytes_);
      host += run_bytes_;
    }
  }
}

bool CopyRig::sides_agree() const {
  for (uint32_t page = 0; page < pages_; ++page) {
    const std::byte* host = host_.data() + page * page_bytes_;
    for (const BlockLayout::Run& run : layout_.runs) {
      if (std::memcmp(host, engine_.data() + run.base + page * run.block_stride, run_bytes_) != 0)
        return false;
      host += run_bytes_;
    }
  }
  return true;
}

void CopyRig::scribble(std::byte value) {
  std::memset(host_.data(), static_cast<int>(value), host_.size());
}

}  // namespace kvsidecar
