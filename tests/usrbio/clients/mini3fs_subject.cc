// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/clients/subjects.h"
#include "tests/usrbio/mini3fs/fixture.h"

namespace kvsidecar::usrbio {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

// FUSE operations behind the calls that a client makes; ".after": done, but answered with an error.
constexpr const char* kOperations[] = {"lookup",  "getattr",      "readlink",
                                       "symlink", "opendir",      "symlink.after",
                                       "unlink",  "unlink.after", "ioctl"};
constexpr int kTimesMax = 16;  // more often than any operation is asked for in one scenario

class Mini3fsSubject final : public ClientSubject {
 public:
  Mini3fsSubject(std::unique_ptr<fake3fs::Mini3fs> server, std::string library)
      : server_(std::move(server)), library_(std::move(library)) {}

  std::string name() const override { return library_.empty() ? "builtin" : "library " + library_; }
  Result<std::unique_ptr<Client>> open(const std::string& path) override {
    return library_.empty() ? open_builtin(path) : open_library(path, library_);
  }
  const std::string& mount() const override { return server_->mount(); }
  uint64_t chunk_bytes() const override { return kChunkBytes; }
  void fault(const std::string& fault_name, const std::string& value) override {
    const Status done = server_->set(fault_name, value);
    KV_CHECK(done.ok());
  }
  void clear_faults() override {
    const Status done = server_->clear();
    KV_CHECK(done.ok());
  }
  int64_t count(const std::string& count_name) override { return server_->count(count_name); }
  void kill() override { server_->kill(); }
  void restart() override {
    const Status done = server_->restart();
    KV_CHECK(done.ok());
  }
  std::vector<std::string> child_arguments() const override {
    return {library_.empty() ? "-" : library_};
  }

  void fail_each_call(const std::function<void()>& scenario,
                      const std::function<void(const std::string&)>& after) override {
    for (const std::string operation : kOperations) {
      for (int nth = 1; nth <= kTimesMax; ++nth) {
        fault("fuse." + operation, "EIO@" + std::to_string(nth));
        scenario();
        clear_faults();
        after(operation + " " + std::to_string(nth));
      }
    }
  }

 private:
  const std::unique_ptr<fake3fs::Mini3fs> server_;
  const std::string library_;
};

}  // namespace

std::unique_ptr<ClientSubject> make_mini3fs_subject(const std::string& library,
                                                    std::string& missing) {
  missing = fake3fs::Mini3fs::missing();
  if (!missing.empty()) return nullptr;
  auto server = fake3fs::Mini3fs::start({.chunk_bytes = kChunkBytes, .workers = 2, .more = {}});
  if (!server) {
    missing = server.status().text();
    return nullptr;
  }
  return std::make_unique<Mini3fsSubject>(server.take(), library);
}

}  // namespace kvsidecar::usrbio
