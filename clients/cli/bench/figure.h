// SPDX-License-Identifier: Apache-2.0
// One measured figure beside its floor, and how figures are written. Pure; any thread.
#pragma once
#include <string>
#include <vector>

namespace kvsidecar {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  double floor = 0;  // same unit; 0: there is none
  bool more_is_better = false;
  double ratio_limit = 0;  // of value to floor: at least (more_is_better) or at most; 0: none
  double value_limit = 0;  // of the value itself, as above; 0: none
  std::string note;        // what was measured where it isn't plain: sizes, counts

  double ratio() const { return floor > 0 ? value / floor : 0; }
  bool ok() const;
  std::string reach_text() const;  // "<= 1.5 x", "<= 60 us and <= 4 x"
};

std::string figures_text(const std::vector<Figure>& figures);
// [{"figure", "value", "unit", "floor", "ratio", "reach", "ok", "note"}]
std::string figures_json(const std::vector<Figure>& figures);

double median(std::vector<double> values);  // 0 of none
double percentile(std::vector<double> values, double share);

}  // namespace kvsidecar
