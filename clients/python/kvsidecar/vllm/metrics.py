# SPDX-License-Identifier: Apache-2.0
"""What the connector counts: COUNTERS, TIMES and GAUGES are all of it. Needs no vLLM.

A Recorder counts in one process; what it took in a step travels through vLLM as a Stats (stats.py)
and comes out at /metrics as vllm:kvsidecar_<family>{<label>=<value>}, counters with _total. What
vLLM's HF3FS connector shows is here:

| vLLM's HF3FS connector               | here                                                  |
| ------------------------------------ | ----------------------------------------------------- |
| vllm:hf3fs_save_duration_seconds     | vllm:kvsidecar_store_seconds                          |
| vllm:hf3fs_load_duration_seconds     | vllm:kvsidecar_load_seconds                           |
| vllm:hf3fs_num_failed_save           | vllm:kvsidecar_failed_stores, by cause in store_pages |
| vllm:hf3fs_num_failed_load           | vllm:kvsidecar_failed_loads, by cause in load_pages   |
| "Num transfers task" of the log line | vllm:kvsidecar_loads and vllm:kvsidecar_stores        |

Every page of a load or a store counts once under what came of it: the outcomes of load_pages and of
store_pages add up to the pages asked for.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from ..status import Status

if TYPE_CHECKING:
    from .stats import Stats


class Counter(NamedTuple):
    """Where a count comes out."""

    family: str
    label: str  # value of the family's one label (LABELS), "" where it has none
    help: str  # of the family: its first counter has it


COUNTERS: Dict[str, Counter] = {
    # Scheduler.
    "lookups": Counter("lookups", "", "Requests looked up in the daemon."),
    "lookup_nones": Counter("lookup_none", "", "Times that the scheduler was asked to come back."),
    "lookup_requests_none": Counter("lookup_requests_none", "", "Requests that ever were."),
    "lookup_late": Counter("lookup_late", "", "Lookups without an answer at their deadline."),
    "lookup_failed": Counter("lookup_failed", "", "Lookups that ended in an error."),
    "hit_tokens_host": Counter("hit_tokens", "host", "Tokens promised, by where they were found."),
    "hit_tokens_store": Counter("hit_tokens", "store", ""),
    "hit_tokens_remote": Counter("hit_tokens", "remote", ""),
    "scheduler_ns": Counter("scheduler_ns", "", "Nanoseconds of the scheduler in the connector."),
    "scheduler_spin_ns": Counter("scheduler_spin_ns", "", "Beside them: in wait of an answer."),
    "scheduler_steps": Counter("scheduler_steps", "", "Steps of the scheduler."),
    "resets": Counter("resets", "", "Resets of the cache that were done."),
    # Worker.
    "loads": Counter("loads", "", "Loads begun, one a request."),
    "load_pages_ok": Counter("load_pages", "ok", "Pages asked for by loads, by what came of it."),
    "load_pages_miss": Counter("load_pages", "miss", ""),
    "load_pages_timeout": Counter("load_pages", "timeout", ""),
    "load_pages_corrupt": Counter("load_pages", "corrupt", ""),
    "load_pages_io_error": Counter("load_pages", "io_error", ""),
    "load_pages_unavailable": Counter("load_pages", "unavailable", ""),
    "load_pages_revoked": Counter("load_pages", "revoked", ""),
    "load_pages_other": Counter("load_pages", "other", ""),
    "load_bytes": Counter("load_bytes", "", "Bytes loaded by this rank."),
    "failed_loads": Counter("failed_loads", "", "Loads of which at least one page failed."),
    "stores": Counter("stores", "", "Stores begun, one a request and step."),
    "store_pages_ok": Counter("store_pages", "ok", "Pages given to stores, by what came of it."),
    "store_pages_exists": Counter("store_pages", "exists", ""),
    "store_pages_revoked": Counter("store_pages", "revoked", ""),
    "store_pages_refused": Counter("store_pages", "refused", ""),
    "store_pages_failed": Counter("store_pages", "failed", ""),
    "store_bytes": Counter("store_bytes", "", "Bytes stored by this rank, what existed left out."),
    "failed_stores": Counter("failed_stores", "", "Stores of which at least one page failed."),
    "connects": Counter("connects", "", "Connections made with the daemon."),
}
TIMES: Dict[str, str] = {
    "lookup_seconds": "From sending a lookup to its answer.",
    "load_seconds": "From beginning a load to its end.",
    "store_seconds": "From beginning a store to its end.",
}
GAUGES: Dict[str, str] = {
    "connected": "Whether a process of the engine has a connection with its daemon.",
}
LABELS = {"hit_tokens": "place", "load_pages": "outcome", "store_pages": "outcome"}
GAUGE_LABEL = "process"
SAMPLES_MAX = 1024  # durations kept between two looks at them; beyond it only their sum and number


# Where the pages of a load or a store count, by their status.
_UNAVAILABLE = {Status.UNAVAILABLE, Status.UNKNOWN_HANDLE, Status.STALE_HANDLE,
                Status.STALE_NAMESPACE, Status.STALE_MAPPING, Status.UNSUPPORTED_VERSION,
                Status.DRAINING}
LOADED: Dict[int, str] = {
    Status.OK: "ok", Status.MISS: "miss", Status.EXPIRED: "miss", Status.TIMEOUT: "timeout",
    Status.CORRUPT: "corrupt", Status.IO_ERROR: "io_error", Status.REVOKED: "revoked",
    Status.ABANDONED: "revoked", **{status: "unavailable" for status in _UNAVAILABLE}}
STORED: Dict[int, str] = {
    Status.OK: "ok", Status.OK_PART: "ok", Status.EXISTS: "exists", Status.REVOKED: "revoked",
    Status.ABANDONED: "revoked", Status.BUSY: "refused", Status.OVER_QUOTA: "refused",
    Status.DENIED: "refused", Status.NOT_STORED: "refused",
    **{status: "refused" for status in _UNAVAILABLE}}


class Recorder:
    """Counts of one process (scheduler or worker); one thread at a time. A name that isn't in the
    tables is a bug of the connector: KeyError."""

    def __init__(self, process: str = "scheduler") -> None:
        """process: "scheduler" or "worker <rank>", the label of its gauges."""
        self._process = process
        self._counters: Dict[str, int] = {}  # since the last take
        self._times: Dict[str, List[Any]] = {}
        self._gauges: Dict[str, float] = {}
        self._changed = False

    def count(self, name: str, amount: int = 1) -> None:
        """Adds to a counter."""
        if amount < 0:
            raise ValueError(f"{name}: counters only grow, not by {amount}")
        if name not in COUNTERS:
            raise KeyError(name)
        if amount:
            self._counters[name] = self._counters.get(name, 0) + amount
            self._changed = True

    def count_load(self, status: int, amount: int = 1) -> None:
        """Pages of a load that ended with a Status: load_pages_*."""
        self.count("load_pages_" + LOADED.get(status, "other"), amount)

    def count_store(self, status: int, amount: int = 1) -> None:
        """Pages of a store that ended with a Status: store_pages_*."""
        self.count("store_pages_" + STORED.get(status, "failed"), amount)

    def observe(self, name: str, seconds: float) -> None:
        """One more duration."""
        if name not in TIMES:
            raise KeyError(name)
        add_time(self._times.setdefault(name, [0, 0.0, []]), 1, seconds, [seconds])
        self._changed = True

    def gauge(self, name: str, value: float) -> None:
        """Sets a gauge of this process."""
        if name not in GAUGES:
            raise KeyError(name)
        if self._gauges.get(name) != value:
            self._gauges[name] = value
            self._changed = True

    def take(self) -> Optional["Stats"]:
        """What came since the last take, None if nothing did."""
        if not self._changed:
            return None
        from .stats import Stats
        counters, self._counters = self._counters, {}
        times, self._times = self._times, {}
        self._changed = False
        gauges = {name: {self._process: value} for name, value in self._gauges.items()}
        return Stats(data={"counters": counters, "times": times, "gauges": gauges})


def add_time(time: List[Any], count: int, total: float, samples: List[float]) -> None:
    """Adds durations to [count, sum, samples] in place."""
    time[0] += count
    time[1] += total
    time[2].extend(samples[:SAMPLES_MAX - len(time[2])])


def __getattr__(name: str) -> Any:
    if name in ("Stats", "PromMetrics"):  # these two need vLLM
        from . import stats
        return getattr(stats, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
