// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/attach.h"

#include <cstdio>

#include "clients/cli/replay/engine.h"

namespace kvsidecar {

std::string replay_revision(uint64_t seed, uint64_t run) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(run));
  return "seed-" + std::to_string(seed) + "-run-" + digits;
}

client::Expected<kvs_namespace> attach_replay(client::Client& client,
                                              const EngineOptions& options) {
  const kvs_part part{{}, options.page_bytes};
  const std::string revision = replay_revision(options.seed, options.run);
  kvs_namespace_fields fields{};
  fields.model = "kvsidecar-replay";
  fields.revision = revision.c_str();
  fields.dtype = "u8";
  fields.quantization = "none";
  fields.layout = "flat";
  fields.pool = "kv";
  fields.draft_model = "none";
  fields.tokens_per_page = 512;
  fields.tp_size = fields.pp_size = fields.cp_size = 1;
  fields.slices = 1;
  fields.parts = &part;
  fields.part_count = 1;
  return client.attach(fields);
}

}  // namespace kvsidecar
