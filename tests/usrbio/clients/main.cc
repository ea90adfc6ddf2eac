// SPDX-License-Identifier: Apache-2.0
// usrbio_clients_test builtin [GoogleTest's arguments]            against mini3fs
// usrbio_clients_test library LIBRARY [GoogleTest's arguments]    against mini3fs
// usrbio_clients_test emulator LIBRARY [GoogleTest's arguments]
// usrbio_clients_test child …                                      see child.h
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/usrbio/clients/child.h"
#include "tests/usrbio/clients/subjects.h"

namespace kvsidecar::usrbio {
namespace {

std::unique_ptr<ClientSubject>& slot() {
  static std::unique_ptr<ClientSubject> made;
  return made;
}

// One test that names what is missing, in the place of all.
class Missing : public ::testing::Test {
 public:
  explicit Missing(std::string why) : why_(std::move(why)) {}
  void TestBody() override { GTEST_SKIP() << why_; }

 private:
  const std::string why_;
};

int run(const std::string& kind, const std::string& library) {
  std::string missing;
  slot() = kind == "emulator" ? make_emulator_subject(library, missing)
                              : make_mini3fs_subject(library, missing);
  if (!slot()) {
    ::testing::RegisterTest("Missing", "WhatTheTestsNeed", nullptr, nullptr, __FILE__, __LINE__,
                            [missing]() -> Missing* { return new Missing(missing); });
    ::testing::GTEST_FLAG(filter) = "Missing.*";
  }
  const int answer = RUN_ALL_TESTS();
  slot().reset();
  return answer;
}

}  // namespace

ClientSubject& subject() { return *slot(); }

}  // namespace kvsidecar::usrbio

int main(int argc, char** argv) {
  using namespace kvsidecar::usrbio;
  if (argc > 1 && argv[1] == std::string("child")) return child_main({argv + 2, argv + argc});
  ::testing::InitGoogleTest(&argc, argv);
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind != "builtin" && (argc < 3 || (kind != "library" && kind != "emulator"))) {
    std::fprintf(stderr, "usage: %s builtin | library LIBRARY | emulator LIBRARY\n", argv[0]);
    return 2;
  }
  return run(kind, kind == "builtin" ? "" : argv[2]);
}
