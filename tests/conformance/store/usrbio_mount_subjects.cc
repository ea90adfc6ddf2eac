// SPDX-License-Identifier: Apache-2.0
// The conformance suite on the usrbio store with its protocol below it: the site's library's
// emulator over a plain folder, and a FUSE server that speaks the protocol, by the builtin client
// and by the builtin client behind the library's C interface. Arguments: which of the three, and
// the library's path. Exit code 77: no FUSE server can run here; the reason is said.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "tests/conformance/store/usrbio_subject.h"
#include "tests/unit/store/store_fixture.h"
#ifdef KVSIDECAR_HAS_MINI3FS
#include "tests/usrbio/mini3fs/fixture.h"
#endif

namespace kvsidecar {
namespace {

// Smaller than a page, so that transfers span several.
constexpr uint64_t kChunkBytes = 64 << 10;
constexpr int kSkipped = 77;

// One for all tests of this process.
struct Place {
  std::string mount;
  std::string library;  // empty: the builtin client
  int roots = 0;
};
Place place;

class UsrbioSubject final : public StoreSubject {
 public:
  UsrbioSubject() : root_(place.mount + "/" + std::to_string(place.roots++)) {
    std::filesystem::create_directory(root_);
  }
  ~UsrbioSubject() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  std::unique_ptr<Store> open() override {
    UsrbioOpeners openers{[](const std::string& path) {
                            return place.library.empty()
                                       ? usrbio::open_builtin(path)
                                       : usrbio::open_library(path, place.library);
                          },
                          // The emulator's folder is no mount that the kernel knows.
                          [](const std::string&) -> Result<std::string> { return place.mount; }};
    UsrbioStoreOptions options = usrbio_subject_options(root_, state_.path(), std::move(openers));
    options.files.stripe_bytes = kChunkBytes;
    return open_usrbio_subject(options);
  }

 private:
  const std::string root_;
  const TemporaryFolder state_;
};

std::unique_ptr<StoreSubject> subject() { return std::make_unique<UsrbioSubject>(); }
INSTANTIATE_TEST_SUITE_P(Usrbio, StoreConformance, ::testing::Values(&subject));

int run_on_emulator() {
  const TemporaryFolder mount;
  place.mount = mount.path();
  ::setenv("KVSIDECAR_EMULATOR_MOUNT", place.mount.c_str(), 1);
  ::setenv("KVSIDECAR_EMULATOR_CHUNK", std::to_string(kChunkBytes).c_str(), 1);
  return RUN_ALL_TESTS();
}

int run_on_server() {
#ifdef KVSIDECAR_HAS_MINI3FS
  const std::string missing = fake3fs::Mini3fs::missing();
  if (!missing.empty()) {
    std::cout << "skipped: " << missing << "\n";
    return kSkipped;
  }
  auto server = fake3fs::Mini3fs::start({.chunk_bytes = kChunkBytes, .workers = 2, .more = {}});
  if (!server) {
    std::cout << server.status().text() << "\n";
    return 1;
  }
  place.mount = (*server)->mount();
  return RUN_ALL_TESTS();
#else
  std::cout << "skipped: built without libfuse3\n";
  return kSkipped;
#endif
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 2) kvsidecar::place.library = argv[2];
  const bool emulator = argc > 1 && std::strcmp(argv[1], "emulator") == 0;
  return emulator ? kvsidecar::run_on_emulator() : kvsidecar::run_on_server();
}
