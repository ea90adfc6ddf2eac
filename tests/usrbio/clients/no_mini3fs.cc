// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/clients/subjects.h"

namespace kvsidecar::usrbio {

std::unique_ptr<ClientSubject> make_mini3fs_subject(const std::string&, std::string& missing) {
  missing = "this build has no mini3fs: install libfuse3-dev and configure again";
  return nullptr;
}

}  // namespace kvsidecar::usrbio
