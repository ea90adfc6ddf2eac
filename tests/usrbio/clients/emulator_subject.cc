// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/usrbio/leftovers.h"
#include "tests/usrbio/clients/subjects.h"
#include "tests/usrbio/emulator/knobs.h"

namespace kvsidecar::usrbio {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

struct Knobs {
#define KVS_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  KVS_EMULATOR_KNOBS(KVS_MEMBER)
#undef KVS_MEMBER
};

class EmulatorSubject final : public ClientSubject {
 public:
  EmulatorSubject(const std::string& library, std::string& missing) : library_(library) {
    mount_ = "/tmp/" + test_name();
    std::filesystem::create_directory(mount_);
    ::setenv("KVSIDECAR_EMULATOR_MOUNT", mount_.c_str(), 1);
    ::setenv("KVSIDECAR_EMULATOR_CHUNK", std::to_string(kChunkBytes).c_str(), 1);
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      missing = library + " can't be loaded: " + ::dlerror();
      return;
    }
#define KVS_FIND(name, result, parameters)                                                      \
  knobs_.name = reinterpret_cast<result(*) parameters>(::dlsym(handle, "kvs_emulator_" #name)); \
  if (knobs_.name == nullptr) missing = library + " has no kvs_emulator_" #name;
    KVS_EMULATOR_KNOBS(KVS_FIND)
#undef KVS_FIND
  }
  ~EmulatorSubject() override {
    std::error_code ignored;
    std::filesystem::remove_all(mount_, ignored);
  }

  std::string name() const override { return "library " + library_; }
  Result<std::unique_ptr<Client>> open(const std::string& path) override {
    return open_library(path, library_);
  }
  const std::string& mount() const override { return mount_; }
  uint64_t chunk_bytes() const override { return kChunkBytes; }
  void fault(const std::string& fault_name, const std::string& value) override {
    KV_CHECK(knobs_.faults((fault_name + " " + value).c_str()) == 0);
  }
  void clear_faults() override {
    knobs_.faults("");
    knobs_.release();
  }
  int64_t count(const std::string& count_name) override {
    if (count_name == "iovs") return registered_memories();
    return static_cast<int64_t>(knobs_.count(count_name.c_str()));
  }
  void kill() override { knobs_.kill_daemon(); }
  void restart() override { knobs_.restart_daemon(); }
  std::vector<std::string> child_arguments() const override { return {}; }

  void fail_each_call(const std::function<void()>& scenario,
                      const std::function<void(const std::string&)>& after) override {
    for (uint64_t nth = 1;; ++nth) {
      knobs_.fail_call(nth, EIO);
      scenario();
      const bool failed = knobs_.calls() >= nth;
      knobs_.fail_call(0, 0);
      if (!failed) break;
      after("call " + std::to_string(nth));
    }
  }

 private:
  // The emulator counts a memory that a symlink registered only when I/O names it.
  int64_t registered_memories() const {
    int64_t found = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(mount_ + "/3fs-virt/iovs", none))
      found += parse_id(entry.path().filename().string()).has_value();
    return found;
  }

  const std::string library_;
  std::string mount_;
  Knobs knobs_;
};

}  // namespace

std::unique_ptr<ClientSubject> make_emulator_subject(const std::string& library,
                                                     std::string& missing) {
  auto made = std::make_unique<EmulatorSubject>(library, missing);
  if (!missing.empty()) return nullptr;
  return made;
}

}  // namespace kvsidecar::usrbio
