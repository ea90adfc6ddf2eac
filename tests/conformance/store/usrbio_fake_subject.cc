// SPDX-License-Identifier: Apache-2.0
// The conformance suite on the usrbio store over a made-up mount: the store's own part, without a
// protocol below. Also with chunks smaller than a page, with a ring of two entries, and with I/O
// that runs before it is submitted.
#include "tests/conformance/store/usrbio_subject.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/usrbio_store/fake_client.h"

namespace kvsidecar {
namespace {

class UsrbioFakeSubject final : public StoreSubject {
 public:
  UsrbioFakeSubject(uint64_t chunk_bytes, uint32_t entries, bool early)
      : options_(usrbio_subject_options(folder_.path(), folder_.path(), openers())) {
    mount_.mount_point = folder_.path();
    if (early) mount_.mode = kvsidecar::testing::FakeMount::Mode::kAtPrepare;
    options_.files.stripe_bytes = chunk_bytes;
    options_.ring_entries = entries;
  }
  std::unique_ptr<Store> open() override { return open_usrbio_subject(options_); }

 private:
  UsrbioOpeners openers() {
    return {[this](const std::string&) { return mount_.open(); },
            [this](const std::string&) -> Result<std::string> { return mount_.mount_point; }};
  }
  TemporaryFolder folder_;
  kvsidecar::testing::FakeMount mount_;
  UsrbioStoreOptions options_;
};

std::unique_ptr<StoreSubject> plain() {
  return std::make_unique<UsrbioFakeSubject>(1 << 20, 128, false);
}
std::unique_ptr<StoreSubject> small_chunks() {
  return std::make_unique<UsrbioFakeSubject>(64 << 10, 128, false);
}
std::unique_ptr<StoreSubject> small_ring() {
  return std::make_unique<UsrbioFakeSubject>(64 << 10, 2, false);
}
std::unique_ptr<StoreSubject> early() {
  return std::make_unique<UsrbioFakeSubject>(1 << 20, 128, true);
}

INSTANTIATE_TEST_SUITE_P(UsrbioFake, StoreConformance,
                         ::testing::Values(&plain, &small_chunks, &small_ring, &early));

}  // namespace
}  // namespace kvsidecar
