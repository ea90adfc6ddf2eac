# SPDX-License-Identifier: Apache-2.0
"""What get_stats tells SGLang's metrics: pages and bandwidth of each transfer since the last
look."""
from __future__ import annotations

import threading
from typing import Any, List, Tuple

SAMPLES_MAX = 4096  # an engine that never looks doesn't fill memory


class StorageStats:
    """Any thread."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._got: List[Tuple[int, float]] = []  # pages, GB/s
        self._set: List[Tuple[int, float]] = []

    def got(self, pages: int, bytes_: int, seconds: float) -> None:
        """One transfer of one pool; those that brought nothing have no bandwidth."""
        with self._lock:
            self._add(self._got, pages, bytes_, seconds)

    def set(self, pages: int, bytes_: int, seconds: float) -> None:
        with self._lock:
            self._add(self._set, pages, bytes_, seconds)

    def _add(self, samples: List[Tuple[int, float]], pages: int, bytes_: int,
             seconds: float) -> None:
        if self._wanted and pages and len(samples) < SAMPLES_MAX:
            samples.append((pages, bytes_ / max(seconds, 1e-9) / 1e9))

    def take(self) -> Any:
        """A StorageMetrics of SGLang's with what came since the last take."""
        from sglang.srt.observability.metrics_collector import StorageMetrics
        with self._lock:
            got, self._got = self._got, []
            stored, self._set = self._set, []
        metrics = StorageMetrics()
        metrics.prefetch_pgs.extend(pages for pages, _ in got)
        metrics.prefetch_bandwidth.extend(rate for _, rate in got)
        metrics.backup_pgs.extend(pages for pages, _ in stored)
        metrics.backup_bandwidth.extend(rate for _, rate in stored)
        return metrics
