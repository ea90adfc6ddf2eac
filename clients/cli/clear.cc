// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <cstdio>

#include "clients/cli/commands.h"
#include "clients/cli/print.h"

namespace kvsidecar {

int run_clear(const Target& target, const ClearOptions& options) {
  auto space = namespace_of_hex(options.name_space);
  if (!space) return fail(target, "clear", space.status());
  auto asker = Asker::open(target);
  if (!asker) return fail(target, "clear", asker.status());
  auto generation = asker->clear(*space);
  if (!generation) return fail(target, "clear", generation.status());
  const std::string id = hex_of(space->data(), space->size());
  std::printf(target.json ? "{\"namespace\": \"%s\", \"generation\": %" PRIu64 "}\n"
                          : "%s is at generation %" PRIu64 "; its earlier pages are gone\n",
              id.c_str(), *generation);
  return 0;
}

}  // namespace kvsidecar
