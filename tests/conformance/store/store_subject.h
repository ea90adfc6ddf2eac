// SPDX-License-Identifier: Apache-2.0
// What the store tests share: pages with made-up bytes, and a driver that turns a store in the
// test's own thread until a command is done. An implementation enters the conformance suite by a
// subject in a source of its own, with INSTANTIATE_TEST_SUITE_P(Name, StoreConformance,
// testing::Values(&make_my_subject)).
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "sidecar/store/store.h"

namespace kvsidecar {

class StoreSubject {
 public:
  virtual ~StoreSubject() = default;
  // Opens the store on this subject's medium, which keeps what earlier stores wrote. At most one
  // store is open at a time. Segments hold about 4 MiB, the queue 64 commands.
  virtual std::unique_ptr<Store> open() = 0;
};
class StoreConformance : public ::testing::TestWithParam<std::unique_ptr<StoreSubject> (*)()> {};

struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using PageMemory = std::unique_ptr<std::byte, FreeAligned>;
PageMemory page_memory(uint64_t page_bytes);  // 4 KiB aligned and rounded, filled with 0xee

std::unique_ptr<NamespaceInfo> make_namespace(const std::string& model, uint64_t page_bytes);

// A page whose bytes and record follow from (namespace, generation, number).
struct TestPage {
  TestPage(const NamespaceInfo& space, uint64_t generation, uint64_t number,
           size_t description_bytes = 0);
  StoreCommand write(uint64_t token, bool durable = false) const;
  bool same_bytes(const std::byte* data) const;
  bool same_record(const PageRecord& other) const;

  const NamespaceInfo* space;
  uint64_t page_bytes;
  PageMemory memory;
  std::shared_ptr<PageRecord> record;
};

class StoreDriver {
 public:
  explicit StoreDriver(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  Store& store() { return *store_; }
  void submit(StoreCommand&& command);  // turns the store while its queue is full
  // Turns the store until a completion comes; fails the test after a generous deadline.
  StoreDone next();
  StoreDone run(StoreCommand&& command);  // submits and returns its completion; no other may be out
  StoreDone write(const TestPage& page, bool durable = false);
  StoreDone read(const StoreLocation& location, uint64_t page_bytes, std::byte* into);
  Code erase(const StoreLocation& location, bool durable = false);
  Code unlink(uint64_t segment);
  Code flush();
  std::vector<std::unique_ptr<FoundSegment>> scan();
  void turn();  // one step, or a wait for the store's event

 private:
  std::unique_ptr<Store> store_;
  std::deque<StoreDone> early_;
  uint64_t next_token_ = 1'000'000;
};

}  // namespace kvsidecar
