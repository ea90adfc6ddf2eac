// SPDX-License-Identifier: Apache-2.0
// What every device must do, whatever its memory is. An implementation adds itself by a subject:
// how to make the device, and an engine that owns memory on it, in a source of its own, with
// INSTANTIATE_TEST_SUITE_P(Name, DeviceConformance, testing::Values(&make_my_subject)).
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ipc/requests.h"
#include "sidecar/device/device.h"

namespace kvsidecar {

// An engine's allocation as the engine sees it.
class EngineAllocation {
 public:
  virtual ~EngineAllocation() = default;
  virtual MemoryHandle handle(uint64_t offset, uint64_t bytes) = 0;
  virtual void write(uint64_t offset, Bytes bytes) = 0;
  virtual std::vector<std::byte> read(uint64_t offset, uint64_t bytes) = 0;
};

class DeviceSubject {
 public:
  virtual ~DeviceSubject() = default;
  virtual Device& device() = 0;
  virtual std::unique_ptr<EngineAllocation> allocate(uint64_t bytes) = 0;
  // Host memory that the device may copy to and from, as the pool's would be.
  virtual std::byte* host(uint64_t bytes) = 0;
};

class DeviceConformance : public ::testing::TestWithParam<std::unique_ptr<DeviceSubject> (*)()> {};

}  // namespace kvsidecar
