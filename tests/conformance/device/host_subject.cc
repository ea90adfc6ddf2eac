// SPDX-License-Identifier: Apache-2.0
// The host device under the suite: engine memory is a memfd.
#include <unistd.h>

#include <cstring>

#include "sidecar/device/host_device.h"
#include "tests/conformance/device/device_suite.h"

namespace kvsidecar {
namespace {

class MemfdAllocation final : public EngineAllocation {
 public:
  explicit MemfdAllocation(uint64_t bytes)
      : fd_(make_sealed_memfd("engine", bytes).take()),
        memory_(MappedMemory::map(fd_.get(), 0, bytes, Access::kReadWrite).take()) {}
  MemoryHandle handle(uint64_t offset, uint64_t bytes) override {
    return {MemoryKind::kHostFd, UniqueFd(::dup(fd_.get())), bytes, offset};
  }
  void write(uint64_t offset, Bytes bytes) override {
    std::memcpy(memory_.data() + offset, bytes.data(), bytes.size());
  }
  std::vector<std::byte> read(uint64_t offset, uint64_t bytes) override {
    return {memory_.data() + offset, memory_.data() + offset + bytes};
  }

 private:
  UniqueFd fd_;
  MappedMemory memory_;
};

class HostSubject final : public DeviceSubject {
 public:
  Device& device() override { return device_; }
  std::unique_ptr<EngineAllocation> allocate(uint64_t bytes) override {
    return std::make_unique<MemfdAllocation>(bytes);
  }
  std::byte* host(uint64_t bytes) override {
    host_.push_back(std::make_unique<std::byte[]>(bytes));
    return host_.back().get();
  }

 private:
  HostDevice device_{42};
  std::vector<std::unique_ptr<std::byte[]>> host_;
};

std::unique_ptr<DeviceSubject> make_host_subject() { return std::make_unique<HostSubject>(); }

INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance, ::testing::Values(&make_host_subject));

}  // namespace
}  // namespace kvsidecar
