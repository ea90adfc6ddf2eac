// SPDX-License-Identifier: Apache-2.0
// Goal: what opening the library does by itself. Method: this program again, which only opens it,
// with another environment.
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/usrbio/abi/bed.h"

extern char** environ;

namespace kvsidecar::abi {
namespace {

class Loading : public Bed {
 protected:
  int exit_code(const char* log) {
    std::vector<char*> environment;
    std::string given = "HF3FS_USRBIO_LIB_LOG=" + std::string(log);
    for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
    environment.push_back(given.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", command = "load", path = library_.path;
    char* const arguments[] = {program.data(), command.data(), path.data(), nullptr};
    pid_t child = 0;
    EXPECT_EQ(
        ::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment.data()), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(Loading, ALogThatIsUnderstoodIsFine) {
  for (const char* const log : {"", "WARN", "DBG4", ".=INFO", ".=ERR,folly=INFO"}) {
    EXPECT_EQ(exit_code(log), 0) << log;
  }
}

// usrbio.md §11.10: callers clear the variable before they open the library.
TEST_F(Loading, ALogThatIsNotUnderstoodMayEndTheProcess) {
  EXPECT_EQ(exit_code("=no such level="), traits_.ends_on_malformed_log ? 1 : 0);
}

}  // namespace
}  // namespace kvsidecar::abi
