// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/figure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

std::string number_text(double value) {
  char text[48];
  const double size = std::fabs(value);
  std::snprintf(text, sizeof text, size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.3g", value);
  return text;
}

std::string limit_text(double limit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3g", limit);
  return text;
}

bool keeps(double value, double limit, bool more_is_better) {
  return limit == 0 || (more_is_better ? value >= limit : value <= limit);
}

}  // namespace

bool Figure::ok() const {
  return (floor == 0 || keeps(ratio(), ratio_limit, more_is_better)) &&
         keeps(value, value_limit, more_is_better);
}

std::string Figure::reach_text() const {
  const std::string sign = more_is_better ? ">= " : "<= ";
  std::string out;
  if (value_limit != 0) out = sign + limit_text(value_limit) + " " + unit;
  if (ratio_limit == 0) return out;
  return (out.empty() ? "" : out + " and ") + sign + limit_text(ratio_limit) + " x";
}

std::string figures_text(const std::vector<Figure>& figures) {
  Columns table({"figure", "value", "floor", "ratio", "reach", "", "note"});
  for (const Figure& f : figures)
    table.add({f.name, number_text(f.value) + " " + f.unit,
               f.floor > 0 ? number_text(f.floor) + " " + f.unit : "-",
               f.floor > 0 ? number_text(f.ratio()) + " x" : "-", f.reach_text(),
               f.reach_text().empty() ? "-" : f.ok() ? "reached" : "not reached", f.note});
  return table.text();
}

std::string figures_json(const std::vector<Figure>& figures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Figure& f : figures)
    list.push_back({{"figure", f.name},
                    {"value", f.value},
                    {"unit", f.unit},
                    {"floor", f.floor},
                    {"ratio", f.ratio()},
                    {"reach", f.reach_text()},
                    {"ok", f.ok()},
                    {"note", f.note}});
  return list.dump(2);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::lround(share * last));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), upper, values.end());
  if (values.size() % 2 == 1) return *upper;
  return (*std::max_element(values.begin(), upper) + *upper) / 2;
}

}  // namespace kvsidecar
