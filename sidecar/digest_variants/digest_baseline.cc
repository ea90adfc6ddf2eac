// SPDX-License-Identifier: Apache-2.0
#include "sidecar/digest_variants/digest_kernel.h"

namespace kvsidecar {

#if defined(__x86_64__)
constexpr const char* kName = "sse2";
#elif defined(__aarch64__)
constexpr const char* kName = "neon";
#else
constexpr const char* kName = "scalar";
#endif

const DigestVariant kDigestBaseline{kName, hash_bytes, copy_leaf_bytes};

}  // namespace kvsidecar
