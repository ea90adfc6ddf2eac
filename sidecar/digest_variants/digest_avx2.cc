// SPDX-License-Identifier: Apache-2.0
#include "sidecar/digest_variants/digest_kernel.h"

namespace kvsidecar {

const DigestVariant kDigestAvx2{"avx2", hash_bytes, copy_leaf_bytes};

}  // namespace kvsidecar
