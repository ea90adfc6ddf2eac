// SPDX-License-Identifier: Apache-2.0
#include "ipc/result.h"

#include <cstring>

namespace kvsidecar {

Status os_error(const std::string& what, int error, Code code) {
  // strerrordesc_np needs no buffer and no locale, so any thread may come here at any time.
  const char* description = strerrordesc_np(error);
  return {code, what + ": " +
                    (description != nullptr ? std::string(description)
                                            : "error " + std::to_string(error))};
}

}  // namespace kvsidecar
