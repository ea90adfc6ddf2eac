// SPDX-License-Identifier: Apache-2.0
// What became of an import, as text and as JSON. Pure; any thread.
#pragma once
#include <string>

#include "clients/cli/import/import_run.h"

namespace kvsidecar {

std::string report_text(const ImportPlan& plan, const ImportReport& report);
std::string report_json(const ImportPlan& plan, const ImportReport& report);

}  // namespace kvsidecar
