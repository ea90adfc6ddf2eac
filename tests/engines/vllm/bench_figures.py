# SPDX-License-Identifier: Apache-2.0
"""Figures beside their floors, written as the benchmarks of tests/bench write them."""
import dataclasses
import json
import math
import statistics
import statistics


@dataclasses.dataclass
class Figure:
    name: str
    value: float
    unit: str
    floor: float = 0.0  # same unit; 0: there is none
    ratio_limit: float = 0.0  # of value to floor, at most; 0: none
    value_limit: float = math.inf  # of the value itself, at most
    note: str = ""

    @property
    def ratio(self):
        return self.value / self.floor if self.floor > 0 else 0.0

    @property
    def ok(self):
        return self.value <= self.value_limit and (
            not self.ratio_limit or self.ratio <= self.ratio_limit)

    @property
    def reach(self):
        parts = [] if math.isinf(self.value_limit) else [f"<= {self.value_limit:.3g} {self.unit}"]
        if self.ratio_limit:
            parts.append(f"<= {self.ratio_limit:.3g} x")
        return " and ".join(parts)


def _number(value):
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def table(figures):
    rows = [["figure", "value", "floor", "ratio", "reach", "", "note"]]
    for figure in figures:
        has = figure.floor > 0
        rows.append([
            figure.name, f"{_number(figure.value)} {figure.unit}",
            f"{_number(figure.floor)} {figure.unit}" if has else "-",
            f"{_number(figure.ratio)} x" if has else "-", figure.reach,
            "-" if not figure.reach else "reached" if figure.ok else "not reached", figure.note])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def as_json(figures):
    return json.dumps([{"figure": f.name, "value": f.value, "unit": f.unit, "floor": f.floor,
                        "ratio": f.ratio, "reach": f.reach, "ok": f.ok, "note": f.note}
                       for f in figures], indent=2)


def median_with_interval(values):
    """(median, lower, upper): an interval of at least 95 % by order statistics, whatever the
    distribution; the extremes where there are too few values for one."""
    ordered = sorted(values)
    count, below = len(ordered), 0
    left_out = 0.0
    while below < count // 2:
        left_out += math.comb(count, below) / 2 ** count
        if 2 * left_out > 0.05:
            break
        below += 1
    at = max(below - 1, 0)
    return statistics.median(ordered), ordered[at], ordered[count - 1 - at]
