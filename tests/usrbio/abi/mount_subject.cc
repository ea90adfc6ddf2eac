// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/mount_subject.h"

#include <cstdlib>

namespace kvsidecar::abi {

namespace {

class OnMount final : public Subject {
 public:
  OnMount(const Traits& traits, Library library, const std::string& mount)
      : traits_(traits), library_(std::move(library)), mount_(mount) {
    traits_.mount_is_real = true;
    const char* const chunk = std::getenv("KVSIDECAR_USRBIO_CHUNK");
    if (chunk != nullptr) traits_.chunk_bytes = std::strtoull(chunk, nullptr, 10);
  }
  const Traits& traits() const override { return traits_; }
  const Library& library() const override { return library_; }
  const std::string& mount() const override { return mount_; }
  bool set_faults(const std::string& text) override { return text.empty(); }
  void release_stalled() override {}
  void kill_daemon() override {}
  void restart_daemon() override {}
  int64_t count(const std::string&) override { return -1; }

 private:
  Traits traits_;
  const Library library_;
  const std::string mount_;
};

}  // namespace

std::unique_ptr<Subject> make_on_mount(const Traits& traits, const std::string& library,
                                       const std::string& mount, std::string& wrong) {
  Library opened = open(library, wrong);
  if (!wrong.empty()) return nullptr;
  return std::make_unique<OnMount>(traits, std::move(opened), mount);
}

}  // namespace kvsidecar::abi
