# SPDX-License-Identifier: Apache-2.0
"""Times as figures: kvsidecar's beside each other backend's, with what has to be reached."""
import statistics
from dataclasses import dataclass

from bench_backends import EVERY, HTTP, LOCAL, OURS
from bench_figures import Figure, median_with_interval
from bench_queries import apart

ROWS = ("query", "ranks", "set", "store", "get", "read", "cpu")
QUIET = {}  # no reach


@dataclass
class Beside(Figure):
    """Its ratio is the median of the rounds' own. faster: how many times faster, at least."""

    round_ratio: float = 0.0
    faster: bool = True

    @property
    def ratio(self):
        return self.round_ratio

    @property
    def ok(self):
        if not self.ratio_limit:
            return True
        return self.ratio >= self.ratio_limit if self.faster else self.ratio <= self.ratio_limit

    @property
    def reach(self):
        sign = ">=" if self.faster else "<="
        return f"{sign} {self.ratio_limit:.3g} x" if self.ratio_limit else ""


def _rows(pages):
    """{row: [(name of its times, what is told, unit, units in a second, whether the ratio says how
    many times faster, {other backend: reach}, note)]}"""
    moved = f"{pages} pages, "
    a_page = 1e6 / pages
    return {
        "query": [
            (64, "query of 64 keys", "us", 1e6, True, QUIET, ""),
            (512, "query of 512 keys", "us", 1e6, True, {HTTP: 8}, ""),
            (2000, "query of 2000 keys", "us", 1e6, True, {HTTP: 5}, ""),
            (apart(512), "query of 512 keys, 3 ms apart", "us", 1e6, True, QUIET, "")],
        "ranks": [("ranks", "p99 of 512 keys, 8 ranks", "ms", 1e3, True, {HTTP: 10}, "")],
        "set": [("set", "1 set acknowledged", "ms", 1e3, True, {LOCAL: 1.5, HTTP: 3}, moved +
                 "ours: in the host pool; HF3FS, file: in the file")],
        "store": [("store", "2 set until stored", "ms", 1e3, True, {LOCAL: 1, HTTP: 1}, moved +
                   "ours: durable, with fdatasync; the others' sets sync nothing")],
        "get": [("get", "3 get from host pool", "ms", 1e3, True, {LOCAL: 1.5, HTTP: 3}, moved +
                 "HF3FS, file: from the file")],
        "read": [("read", "4 get from store", "ms", 1e3, True, {LOCAL: 1, HTTP: 1}, moved +
                  "ours: daemon started again without its pool")],
        "cpu": [("cpu", "CPU time a page", "us", a_page, False, {LOCAL: 1, HTTP: 1},
                 "rows 2 and 3, all processes")]}


def figures_of(times, rows, pages):
    figures = []
    for row, parts in _rows(pages).items():
        if row not in rows:
            continue
        for name, what, unit, scale, faster, reaches, note in parts:
            seconds = times.of[name]
            for other in EVERY:
                if other != OURS and other in seconds:
                    figures.append(_beside(seconds, what, unit, scale, faster, other,
                                           reaches.get(other, 0), note))
    return figures


def _beside(seconds, what, unit, scale, faster, other, reach, note):
    ours, theirs = seconds[OURS], seconds[other]
    ratios = [b / a if faster else a / b for a, b in zip(ours, theirs)]
    spread = ", ".join(f"{label} {low * by:.3g} to {high * by:.3g}" for label, by, (_, low, high) in
                       (("ratio", 1, median_with_interval(ratios)),
                        ("ours", scale, median_with_interval(ours)),
                        ("theirs", scale, median_with_interval(theirs))))
    return Beside(f"{what}, beside {other}", statistics.median(ours) * scale, unit,
                  statistics.median(theirs) * scale, reach,
                  note="; ".join(filter(None, (f"{len(ratios)} rounds: {spread}", note))),
                  round_ratio=statistics.median(ratios), faster=faster)
