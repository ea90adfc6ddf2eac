// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/import_report.h"

#include <nlohmann/json.hpp>

#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

std::string verdict(const ImportReport& report) {
  if (!report.stopped.empty()) return "stopped: " + report.stopped + "; run it again to go on";
  if (report.complete()) return "complete";
  return "incomplete: " + count_text(report.left_out_pages()) + " pages were left out";
}

}  // namespace

std::string report_text(const ImportPlan& plan, const ImportReport& report) {
  std::string out = line_text("pages", count_text(report.pages));
  out += line_text("  imported", count_text(report.imported) + ", " + bytes_text(report.bytes) +
                                     ", each read back and compared");
  out += line_text("  there already", count_text(report.there_already));
  out += line_text("  left out", count_text(report.left_out_pages()));
  for (const auto& [why, pages] : report.left_out)
    out += "    " + count_text(pages) + ": " + why + "\n";
  if (plan.tables_not_asked != 0)
    out += line_text("tables not asked for", count_text(plan.tables_not_asked));
  for (const TargetNamespace& target : plan.targets)
    out += line_text("to remove them", "kvsidecar clear " + target.hex + " (pool " +
                                           target.fields.pool + ", generation " +
                                           std::to_string(target.generation) + ")");
  return out + line_text("verdict", verdict(report));
}

std::string report_json(const ImportPlan& plan, const ImportReport& report) {
  nlohmann::json targets = nlohmann::json::array();
  for (const TargetNamespace& target : plan.targets)
    targets.push_back({{"namespace", target.hex},
                       {"pool", target.fields.pool},
                       {"generation", target.generation}});
  const nlohmann::json json = {
      {"pages", report.pages},       {"imported", report.imported},
      {"bytes", report.bytes},       {"there_already", report.there_already},
      {"left_out", report.left_out}, {"tables_not_asked", plan.tables_not_asked},
      {"namespaces", targets},       {"complete", report.complete()},
      {"verdict", verdict(report)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace kvsidecar
