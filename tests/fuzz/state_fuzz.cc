// SPDX-License-Identifier: Apache-2.0
// A state directory and the node's folder of a store with arbitrary files (state_input.h): opening
// them gives a sentence or a node; epochs only grow, in both; a generation that was read and is
// then counted on comes back higher, never lower; what is damaged is told from what isn't; and no
// fd stays behind.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "sidecar/shell/state_dir.h"
#include "sidecar/store/node_folder.h"
#include "sidecar/store/segment_format.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/state_input.h"
#include "tests/support/engine.h"

namespace kvsidecar::fuzz {
namespace {

constexpr Hash128 kNode{3, 4};
using Content = std::vector<std::byte>;

void append(Content& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
Content text(const std::string& content) {
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

// As a daemon writes them; the layouts of state_dir.cc once more, so that a change of them shows.
Content valid(StateName name, uint8_t number) {
  Content out;
  switch (name) {
    case StateName::kNode:
      return text(to_hex(kNode) + "\n");
    case StateName::kEpoch:
      append(out, text("KSVNUM01"));
      append(out, bytes_of(uint64_t{number}));
      break;
    case StateName::kOwner:
      return text("node " + to_hex(kNode) + "\nhost h\npid 1\n");
    case StateName::kFolderEpoch:
      return text(std::to_string(number) + "\n");
    case StateName::kSegment:
      return {};
    default: {
      const auto encoded = *encode_identity(testing::fields_of(4096, 1 + number % 2));
      append(out, text("KNAMES01"));
      append(out, bytes_of(uint64_t{number}));
      append(out, bytes_of(static_cast<uint64_t>(encoded.size())));
      append(out, encoded);
    }
  }
  append(out, bytes_of(namespace_id(out)));
  return out;
}

Content make_content(const StateFile& file, FuzzInput& in) {
  const auto bytes = in.take_bytes(file.bytes);
  Content content(bytes.begin(), bytes.end());
  if (file.mode & kStateEdits) {
    content = valid(static_cast<StateName>(file.name % static_cast<uint8_t>(StateName::kNames)),
                    file.number);
    for (size_t i = 0; i + 1 < bytes.size() && !content.empty(); i += 2)
      content[static_cast<uint8_t>(bytes[i]) % content.size()] = bytes[i + 1];
  }
  if ((file.mode & kStateRightChecks) && content.size() >= sizeof(Hash128)) {
    content.resize(content.size() - sizeof(Hash128));
    append(content, bytes_of(namespace_id(content)));
  }
  if (file.mode & kStateShort) content.resize(content.size() / 2);
  return content;
}

// The name that a record of these bytes has.
std::string record_name(const Content& content) {
  constexpr size_t kHead = 24, kCheck = sizeof(Hash128);
  if (content.size() < kHead + kCheck) return to_hex(kNode);
  return to_hex(namespace_id(Bytes(content).subspan(kHead, content.size() - kHead - kCheck)));
}

class Folders {
 public:
  Folders() {
    char name[] = "/tmp/kvsidecar-fuzz-XXXXXX";
    char memory[] = "/dev/shm/kvsidecar-fuzz-XXXXXX";  // fsync costs nothing there
    const char* made = ::mkdtemp(memory);
    if (made == nullptr) made = ::mkdtemp(name);
    require(made != nullptr, "a folder can be made");
    root_ = made;
    state = root_ + "/state";
    store = root_ + "/store";
    folder_ = store + "/" + to_hex(kNode) + ".0";
  }
  ~Folders() { std::filesystem::remove_all(root_); }
  void empty() {
    std::filesystem::remove_all(state);
    std::filesystem::remove_all(store);
    std::filesystem::create_directories(state + "/namespaces");
    std::filesystem::create_directories(folder_);
  }
  void write(const StateFile& file, const Content& content) const {
    const UniqueFd fd(
        ::open(path_of(file, content).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    require(fd && ::write(fd.get(), content.data(), content.size()) ==
                      static_cast<ssize_t>(content.size()),
            "a file can be written");
  }
  std::string state, store;

 private:
  std::string path_of(const StateFile& file, const Content& content) const {
    const uint32_t epoch =
        !content.empty() && content[0] == std::byte{0xff} ? 0xffffffffu : file.number;
    switch (static_cast<StateName>(file.name % static_cast<uint8_t>(StateName::kNames))) {
      case StateName::kNode:
        return state + "/node";
      case StateName::kEpoch:
        return state + "/epoch";
      case StateName::kNamespace:
        return state + "/namespaces/" + record_name(content);
      case StateName::kMisnamed:
        return state + "/namespaces/" + to_hex(Hash128{file.number, 1});
      case StateName::kTemporary:
        return state + (file.number % 2 ? "/epoch.tmp" : "/namespaces/x.tmp");
      case StateName::kOwner:
        return folder_ + "/owner";
      case StateName::kFolderEpoch:
        return folder_ + "/epoch";
      default:
        return folder_ + "/" + segment_name(uint64_t{epoch} << 32 | 1);
    }
  }
  std::string root_, folder_;
};

// What a clear does: it counts one further, and from then on nothing older may come back.
void clear_all(const StateDir& opened, StateDir& dir) {
  size_t damaged = 0;
  const auto before = opened.load_namespaces(damaged);
  require(before.ok(), "namespaces can be listed");
  for (const StateDir::SavedNamespace& saved : *before) {
    const Hash128 id = namespace_id(saved.encoded);
    const auto kept = dir.save_namespace(id, saved.encoded, saved.generation);
    require(kept.ok() && *kept == saved.generation, "a record that is known is kept");
    const auto next = dir.save_namespace(id, saved.encoded, saved.generation + 1);
    require(next.ok() && *next == saved.generation + 1, "a clear gives a new generation");
  }
  size_t damaged_after = 0;
  const auto after = dir.load_namespaces(damaged_after);
  require(after.ok() && after->size() == before->size() && damaged_after == damaged,
          "records are read as they were written");
}

void use_state(const Folders& folders, Clock& clock) {
  auto opened = StateDir::open(folders.state, clock, no_faults());
  if (!opened.ok()) return require_sentence(opened.status());
  require(!StateDir::open(folders.state, clock, no_faults()).ok(), "a directory has one daemon");
  const auto first = opened->next_epoch();
  if (first.ok()) {
    const auto second = opened->next_epoch();
    require(!second.ok() || *second > *first, "epochs grow");
  } else {
    require_sentence(first.status());
  }
  clear_all(*opened, *opened);
}

void use_folder(const Folders& folders) {
  uint32_t last = 0;
  for (int life = 0; life < 2; ++life) {
    const auto folder = NodeFolder::claim(folders.store, folders.state, 0);
    if (!folder.ok()) return require_sentence(folder.status());
    require(folder->epoch() > last, "epochs of a folder grow");
    last = folder->epoch();
    for (const auto& entry : std::filesystem::directory_iterator(folder->path()))
      require(segment_from_name(entry.path().filename().string()) >> 32 < last,
              "an epoch is beyond all that wrote here");
  }
}

int next_fd() {
  const UniqueFd fd(::dup(2));
  return fd.get();
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar::fuzz;
  static Folders folders;
  folders.empty();
  const int before = next_fd();
  FuzzInput in(data, bytes);
  for (int files = 0; files < 8 && !in.empty(); ++files) {
    const auto file = in.take<StateFile>();
    folders.write(file, make_content(file, in));
  }
  kvsidecar::testing::FakeClock clock;
  use_state(folders, clock);
  use_folder(folders);
  require(next_fd() == before, "no fd stays behind");
  return 0;
}
