// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/mount_subject.h"

namespace kvsidecar::abi {

std::string mini3fs_missing() {
  return "mini3fs isn't built: libfuse3 (libfuse3-dev) isn't installed";
}

std::unique_ptr<Subject> make_on_mini3fs(const Traits&, const std::string&, std::string& wrong) {
  wrong = mini3fs_missing();
  return nullptr;
}

}  // namespace kvsidecar::abi
