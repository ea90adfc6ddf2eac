// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/emulator_subject.h"

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace kvsidecar::abi {

namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

// With the process' id in its name; those of processes that are gone are taken away.
std::string make_own_folder() {
  namespace fs = std::filesystem;
  const std::string prefix = "kvsidecar.test-abi-";
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    const pid_t maker = std::atoi(name.c_str() + prefix.size());
    std::error_code ignored;
    if (maker > 0 && ::kill(maker, 0) != 0) fs::remove_all(entry.path(), ignored);
  }
  const fs::path made =
      fs::canonical(fs::temp_directory_path()) / (prefix + std::to_string(::getpid()));
  fs::create_directory(made);
  return made.string();
}

Traits traits_of_emulator() {
  Traits traits = traits_of_genuine();
  traits.name = "the emulator";
  traits.chunk_bytes = kChunkBytes;
  traits.settable_faults = traits.restarts = true;
  return traits;
}

class Emulator final : public Subject {
 public:
  Emulator(const std::string& path, std::string& wrong) {
    mount_ = make_own_folder();
    ::setenv("KVSIDECAR_EMULATOR_MOUNT", mount_.c_str(), 1);
    ::setenv("KVSIDECAR_EMULATOR_CHUNK", std::to_string(kChunkBytes).c_str(), 1);
    library_ = open(path, wrong);
    if (library_.handle != nullptr) knobs_ = find_knobs(library_.handle);
    if (wrong.empty() && knobs_ == nullptr) wrong = path + " isn't the emulator";
  }
  ~Emulator() override {
    std::error_code ignored;
    std::filesystem::remove_all(mount_, ignored);
  }
  const Traits& traits() const override { return traits_; }
  const Library& library() const override { return library_; }
  const std::string& mount() const override { return mount_; }
  bool set_faults(const std::string& text) override { return knobs_->faults(text.c_str()) == 0; }
  void release_stalled() override { knobs_->release(); }
  bool fail_call(uint64_t nth, int error) override {
    knobs_->fail_call(nth, error);
    return true;
  }
  void kill_daemon() override { knobs_->kill_daemon(); }
  void restart_daemon() override { knobs_->restart_daemon(); }
  int64_t count(const std::string& name) override {
    return static_cast<int64_t>(knobs_->count(name.c_str()));
  }

 private:
  const Traits traits_ = traits_of_emulator();
  std::string mount_;
  Library library_;
  std::unique_ptr<Knobs> knobs_;
};

}  // namespace

std::unique_ptr<Knobs> find_knobs(void* library) {
  auto knobs = std::make_unique<Knobs>();
  bool all = true;
  const auto find = [&](auto& function, const char* name) {
    void* const found = ::dlsym(library, name);
    all = all && found != nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define KVS_FIND(name, result, parameters) find(knobs->name, "kvs_emulator_" #name);
  KVS_EMULATOR_KNOBS(KVS_FIND)
#undef KVS_FIND
  return all ? std::move(knobs) : nullptr;
}

std::unique_ptr<Subject> make_emulator(const std::string& library, std::string& wrong) {
  auto made = std::make_unique<Emulator>(library, wrong);
  if (!wrong.empty()) return nullptr;
  return made;
}

}  // namespace kvsidecar::abi
