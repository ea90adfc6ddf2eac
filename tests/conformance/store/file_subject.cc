// SPDX-License-Identifier: Apache-2.0
// The conformance suite on FileStore: with O_DIRECT, buffered, with a device that moves half of
// what it is asked, and without io_uring.
#include <cstdlib>
#include <filesystem>

#include "sidecar/store/file_store.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

class NamedFaults final : public FaultPoints {
 public:
  explicit NamedFaults(std::vector<std::string> points) : points_(std::move(points)) {}
  int fail(std::string_view point) override {
    for (const std::string& p : points_)
      if (p == point) return EINVAL;
    return 0;
  }

 private:
  const std::vector<std::string> points_;
};

class FileSubject final : public StoreSubject {
 public:
  explicit FileSubject(std::vector<std::string> points) : faults_(std::move(points)) {
    const char* base = std::getenv("TMPDIR");
    std::string name = std::string(base == nullptr ? "/tmp" : base) + "/kvsidecar-store-XXXXXX";
    KV_CHECK(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
  }
  ~FileSubject() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<Store> open() override {
    FileStoreOptions options;
    options.root = options.state_directory = directory_;
    options.segment_bytes = 4 << 20;
    options.queue_capacity = 64;
    auto store = FileStore::open(options, real_clock(), faults_, nullptr);
    if (!store) ADD_FAILURE() << store.status().text();
    return store.take();
  }

 private:
  NamedFaults faults_;
  std::string directory_;
};

std::unique_ptr<StoreSubject> subject(std::vector<std::string> points) {
  return std::make_unique<FileSubject>(std::move(points));
}
std::unique_ptr<StoreSubject> direct() { return subject({}); }
std::unique_ptr<StoreSubject> buffered() { return subject({"store.direct"}); }
std::unique_ptr<StoreSubject> blocking() { return subject({"store.uring"}); }
std::unique_ptr<StoreSubject> halves() {
  return subject({"store.short_read", "store.short_write"});
}

INSTANTIATE_TEST_SUITE_P(File, StoreConformance,
                         testing::Values(&direct, &buffered, &halves, &blocking));

}  // namespace
}  // namespace kvsidecar
