# SPDX-License-Identifier: Apache-2.0
"""How the connector's counts travel through vLLM and where they come out; metrics.py has the
tables."""
from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Dict, List, Tuple, Union

from prometheus_client import Counter, Gauge, Histogram
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics, KVConnectorStats)

from .metrics import COUNTERS, GAUGE_LABEL, GAUGES, LABELS, TIMES, add_time

PREFIX = "vllm:kvsidecar_"
BUCKETS = (10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3,
           0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass
class Stats(KVConnectorStats):
    """data = {"counters": {name: int}, "times": {name: [count, sum, [samples]]}, "gauges": {name:
    {process: float}}}: plain, so that it can be sent and joined. Names without a count are left
    out."""

    def __post_init__(self) -> None:
        if not self.data:
            self.reset()

    def reset(self) -> None:
        self.data = {"counters": {}, "times": {}, "gauges": {}}

    def is_empty(self) -> bool:
        return not any(self.data.values())

    def aggregate(self, other: KVConnectorStats) -> "Stats":
        """Adds the other's counts to this one's; shares nothing with it."""
        for name, count in other.data["counters"].items():
            counters = self.data["counters"]
            counters[name] = counters.get(name, 0) + count
        for name, (count, total, samples) in other.data["times"].items():
            add_time(self.data["times"].setdefault(name, [0, 0.0, []]), count, total, samples)
        for name, values in other.data["gauges"].items():
            self.data["gauges"].setdefault(name, {}).update(values)
        return self

    def reduce(self) -> Dict[str, Union[int, float]]:
        """For vLLM's log line: counts that aren't 0, mean and 90th percentile of times in ms, and
        how many of the engine's processes are connected."""
        line: Dict[str, Union[int, float]] = dict(sorted(self.data["counters"].items()))
        for name, (count, total, samples) in sorted(self.data["times"].items()):
            if count:
                short = name.replace("_seconds", "")
                line[f"{short} avg (ms)"] = round(total / count * 1e3, 3)
                line[f"{short} P90 (ms)"] = round(percentile(samples, 0.9) * 1e3, 3)
        for name, values in sorted(self.data["gauges"].items()):
            line[name] = sum(values.values())
        return line


def percentile(samples: List[float], share: float) -> float:
    """The least sample that `share` of them don't exceed."""
    ordered = sorted(samples)
    return ordered[ceil(len(ordered) * share) - 1] if ordered else 0.0


class PromMetrics(KVConnectorPromMetrics):
    """One family each in vLLM's own registry, a child per engine of the front-end process."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: List[str],
                 per_engine_labelvalues: Dict[int, List[object]]) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._metrics: Dict[str, Any] = {}
        self._children: Dict[Tuple[int, str], Any] = {}
        families: Dict[str, Any] = {}
        for name, (family, _, text) in COUNTERS.items():
            if family not in families:
                families[family] = metric_types[Counter](
                    name=PREFIX + family, documentation=text,
                    labelnames=labelnames + ([LABELS[family]] if family in LABELS else []))
            self._metrics[name] = families[family]
        for name, text in TIMES.items():
            self._metrics[name] = metric_types[Histogram](
                name=PREFIX + name, documentation=text, buckets=BUCKETS, labelnames=labelnames)
        for name, text in GAUGES.items():
            self._metrics[name] = metric_types[Gauge](
                name=PREFIX + name, documentation=text, labelnames=labelnames + [GAUGE_LABEL],
                multiprocess_mode="mostrecent")
        for engine in per_engine_labelvalues:  # so that each shows as 0 before it first counts
            for name in COUNTERS:
                self._child(engine, name, COUNTERS[name].label)
            for name in TIMES:
                self._child(engine, name, "")

    def _child(self, engine: int, name: str, label: str) -> Any:
        key = (engine, f"{name} {label}")
        child = self._children.get(key)
        if child is None:
            values = list(self.per_engine_labelvalues[engine]) + ([label] if label else [])
            child = self._children[key] = self._metrics[name].labels(*values)
        return child

    def observe(self, transfer_stats_data: Dict[str, Any], engine_idx: int = 0) -> None:
        """Adds what one step brought; once a step, in the front-end process."""
        for name, count in transfer_stats_data["counters"].items():
            self._child(engine_idx, name, COUNTERS[name].label).inc(count)
        for name, (_, _, samples) in transfer_stats_data["times"].items():
            histogram = self._child(engine_idx, name, "")
            for seconds in samples:
                histogram.observe(seconds)
        for name, values in transfer_stats_data["gauges"].items():
            for process, value in values.items():
                self._child(engine_idx, name, process).set(value)
