// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/mount_subject.h"
#include "tests/usrbio/mini3fs/fixture.h"

namespace kvsidecar::abi {

namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

class OnMini3fs final : public Subject {
 public:
  OnMini3fs(const Traits& traits, Library library, std::unique_ptr<fake3fs::Mini3fs> server)
      : traits_(traits), library_(std::move(library)), server_(std::move(server)) {
    traits_.chunk_bytes = kChunkBytes;
    traits_.settable_faults = traits_.restarts = traits_.mount_is_real = true;
  }
  const Traits& traits() const override { return traits_; }
  const Library& library() const override { return library_; }
  const std::string& mount() const override { return server_->mount(); }

  bool set_faults(const std::string& text) override {
    if (!server_->clear().ok()) return false;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(';', at), text.size());
      const std::string rule = text.substr(at, end - at);
      if (!server_->command("set " + rule.substr(rule.find_first_not_of(' '))).ok()) return false;
      at = end + 1;
    }
    return true;
  }
  void release_stalled() override { static_cast<void>(server_->release()); }
  void kill_daemon() override { server_->kill(); }
  void restart_daemon() override {
    const Status done = server_->restart();
    if (!done.ok()) std::fprintf(stderr, "%s\n", done.text().c_str());
  }
  int64_t count(const std::string& name) override { return server_->count(name); }

 private:
  Traits traits_;
  const Library library_;
  const std::unique_ptr<fake3fs::Mini3fs> server_;
};

}  // namespace

std::string mini3fs_missing() { return fake3fs::Mini3fs::missing(); }

std::unique_ptr<Subject> make_on_mini3fs(const Traits& traits, const std::string& library,
                                         std::string& wrong) {
  Library opened = open(library, wrong);
  if (!wrong.empty()) return nullptr;
  auto server = fake3fs::Mini3fs::start({.chunk_bytes = kChunkBytes, .workers = 2, .more = {}});
  if (!server.ok()) {
    wrong = server.status().text();
    return nullptr;
  }
  return std::make_unique<OnMini3fs>(traits, std::move(opened), server.take());
}

}  // namespace kvsidecar::abi
