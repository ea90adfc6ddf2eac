// SPDX-License-Identifier: Apache-2.0
// UsrbioTransfers over a fake mount: registered memory, a file, and a clock that the test moves.
#pragma once
#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "sidecar/store/usrbio/transfers.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/usrbio_store/fake_client.h"

namespace kvsidecar::testing {

inline constexpr uint64_t kChunk = 8192;  // small, so that transfers span several

class TransfersTest : public ::testing::Test {
 protected:
  TransfersTest() {
    mount_.mode = FakeMount::Mode::kByHand;
    const std::string path = folder_.path() + "/file";
    file_.reset(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
    std::vector<char> content(1 << 20);
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 256);
    KV_CHECK(::pwrite(file_.get(), content.data(), content.size(), 0) ==
             static_cast<ssize_t>(content.size()));
    client_ = mount_.open().take();
  }
  ~TransfersTest() override {
    mount_.finish_all();
    if (transfers_ != nullptr) {
      drain();
      transfers_.reset();
    }
  }
  void make(uint32_t entries = 64, size_t staging_buffers = 2) {
    UsrbioTransfers::Rings rings;
    for (auto& ring : rings) ring = ring_of(entries, &ring == &rings[2]);
    options_.chunk_bytes = kChunk;
    options_.staging_bytes = 4096;
    transfers_ = std::make_unique<UsrbioTransfers>(
        options_, clock_, counters_, std::move(rings),
        std::span(memory_).first(staging_buffers * options_.staging_bytes));
    transfers_->add_memory(client_->register_memory("/dev/shm/x", memory_).take());
    transfers_->add_file(client_->register_file(file_.get()).take());
  }
  std::unique_ptr<usrbio::Ring> ring_of(uint32_t entries, bool write) {
    return client_->make_ring({.entries = entries, .for_read = !write, .io_depth = -4}).take();
  }
  TransferPath::Taken start(TransferClass kind, uint64_t offset, std::span<std::byte> first,
                            uint64_t user, std::span<std::byte> second = {}) {
    Transfer transfer;
    transfer.kind = kind;
    transfer.fd = file_.get();
    transfer.offset = offset;
    transfer.pieces[0] = first;
    transfer.pieces[1] = second;
    return transfers_->start(transfer, user);
  }
  TransferPath::Taken read(uint64_t offset, uint64_t bytes, uint64_t user) {
    return start(TransferClass::kDemandRead, offset, page(bytes), user);
  }
  // Registered memory behind the staging buffers.
  std::span<std::byte> page(uint64_t bytes, uint64_t at = 65536) {
    return std::span(memory_).subspan(at, bytes);
  }
  std::vector<TransferPath::Completion> drain() {
    std::vector<TransferPath::Completion> all;
    TransferPath::Completion completion;
    transfers_->submit();
    while (transfers_->next_completion(completion)) all.push_back(completion);
    return all;
  }
  bool holds_file(std::span<const std::byte> bytes, uint64_t offset) {
    std::vector<std::byte> wanted(bytes.size());
    KV_CHECK(::pread(file_.get(), wanted.data(), wanted.size(), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(wanted.size()));
    return std::memcmp(wanted.data(), bytes.data(), bytes.size()) == 0;
  }
  UsrbioClassCounters& reads() { return counters_.of(TransferClass::kDemandRead); }

  TemporaryFolder folder_;
  UniqueFd file_;
  ManualClock clock_;
  FakeMount mount_;
  std::unique_ptr<usrbio::Client> client_;
  UsrbioCounters counters_;
  UsrbioTransfers::Options options_;
  alignas(4096) std::byte memory_[1 << 20];
  std::unique_ptr<UsrbioTransfers> transfers_;
};

inline bool same(const TransferPath::Completion& c, uint64_t user, int64_t result) {
  return c.user == user && c.result == result;
}

}  // namespace kvsidecar::testing
