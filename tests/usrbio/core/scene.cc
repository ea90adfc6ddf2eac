// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/scene.h"

#include <sys/mman.h>

namespace kvsidecar::fake3fs {

UniqueFd Scene::make_plain_memfd() {
  return UniqueFd(::memfd_create("kvsidecar.test-file", MFD_CLOEXEC));
}

}  // namespace kvsidecar::fake3fs
