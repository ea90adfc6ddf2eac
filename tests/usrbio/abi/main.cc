// SPDX-License-Identifier: Apache-2.0
// usrbio_abi_test SUBJECT [LIBRARY] [GoogleTest's arguments]
//   emulator  the emulator, on folders
//   builtin   our client behind the same functions, on a mini3fs
//   genuine   3FS's own library: KVSIDECAR_USRBIO_LIBRARY names it, KVSIDECAR_USRBIO_MOUNT a mount
//             (none: a mini3fs), KVSIDECAR_USRBIO_CHUNK that mount's chunk in bytes (1 MiB)
//   load      opens it and ends, for tests of what opening alone does
// Exit code 77: this machine lacks what it takes, which is said.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/usrbio/abi/bed.h"
#include "tests/usrbio/abi/emulator_subject.h"
#include "tests/usrbio/abi/mount_subject.h"

using namespace kvsidecar::abi;

namespace {

constexpr int kSkipped = 77;

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Why this subject can't be had here; empty: it can.
std::string what_is_missing(const std::string& name, const std::string& library) {
  if (library.empty()) return "KVSIDECAR_USRBIO_LIBRARY names no library";
  const bool mounted = name == "genuine" && !from_environment("KVSIDECAR_USRBIO_MOUNT").empty();
  return name == "emulator" || mounted ? "" : mini3fs_missing();
}

std::unique_ptr<Subject> make(const std::string& name, const std::string& library,
                              std::string& wrong) {
  if (name == "emulator") return make_emulator(library, wrong);
  const Traits traits = name == "builtin" ? traits_of_builtin() : traits_of_genuine();
  const std::string mount = from_environment("KVSIDECAR_USRBIO_MOUNT");
  if (name == "genuine" && !mount.empty()) return make_on_mount(traits, library, mount, wrong);
  return make_on_mini3fs(traits, library, wrong);
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string name = argc > 1 ? argv[1] : "";
  const std::string library = argc > 2 ? argv[2] : from_environment("KVSIDECAR_USRBIO_LIBRARY");
  if (name != "emulator" && name != "builtin" && name != "genuine" && name != "load") {
    std::fprintf(stderr, "usage: %s emulator|builtin|genuine|load [LIBRARY] [--gtest_…]\n",
                 argv[0]);
    return 2;
  }
  std::string wrong;
  if (name == "load") {
    open(library, wrong);
    return wrong.empty() ? 0 : 3;
  }
  if (const std::string missing = what_is_missing(name, library); !missing.empty()) {
    std::printf("SKIPPED: %s\n", missing.c_str());
    return kSkipped;
  }
  set_subject(make(name, library, wrong));
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return 1;
  }
  const int answer = RUN_ALL_TESTS();
  set_subject(nullptr);
  return answer;
}
