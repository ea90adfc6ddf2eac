// SPDX-License-Identifier: Apache-2.0
// `kvsidecar import-hf3fs`: the pages of a stopped SGLang HF3FS backend into namespaces of the
// daemon. Every page is read back and compared; a second run goes on where the first one ended.
#pragma once
#include <string>
#include <vector>

#include "clients/cli/asker.h"

namespace kvsidecar {

struct ImportOptions {
  std::string metadata;                    // --metadata: what the metadata server has saved
  std::vector<std::string> data;           // --data: PATH, or RANK:POOL=PATH
  std::vector<std::string> name_spaces;    // --namespace, 32 hex digits; one for each pool
  std::string server = "127.0.0.1:18000";  // --server: refused while it answers
  bool accept_stale = false;               // --accept-stale: data may be newer than its metadata
  bool accept_size = false;  // --accept-size: data may have another size than its metadata counts
  bool beside = false;       // --beside: also where engines have stored pages of their own
};

// The exit code: 0 when every page that the metadata names is there; 1 when some aren't, or it was
// refused; 2 for a wrong argument. Main thread only.
int run_import_hf3fs(const Target& target, const ImportOptions& options);

}  // namespace kvsidecar
