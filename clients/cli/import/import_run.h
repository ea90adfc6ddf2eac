// SPDX-License-Identifier: Apache-2.0
// The import itself: page by page, oldest first, so that what was used last is evicted last. Blocks
// until it is through. One thread.
#pragma once
#include <functional>

#include "clients/cli/import/import_plan.h"

namespace kvsidecar {

struct ImportReport {
  uint64_t pages = 0;  // that are named by the metadata, whole or not
  uint64_t imported = 0, there_already = 0, bytes = 0;
  LeftOut left_out;
  std::string stopped;  // why it ended early; empty: it is through
  uint64_t left_out_pages() const;
  bool complete() const { return stopped.empty() && left_out_pages() == 0; }
};

struct ImportProgress {
  uint64_t done = 0, pages = 0, bytes = 0;
};

// Runs through the plan's namespaces. show: called after every batch.
ImportReport run_import(client::Client& client, ImportPlan& plan, bool durable,
                        const std::function<void(const ImportProgress&)>& show);

}  // namespace kvsidecar
