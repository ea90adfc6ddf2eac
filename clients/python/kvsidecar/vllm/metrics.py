# SPDX-License-Identifier: Apache-2.0
"""What the connector counts and where it comes out. COUNTERS, TIMES and GAUGES are all of it.

A Recorder counts in one process; Stats is what travels through vLLM, once a step; PromMetrics is
what /metrics shows, as vllm:kvsidecar_<family>{<label>=<value>}.
"""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics, KVConnectorStats)


class Counter(NamedTuple):
    """Where a count comes out."""

    family: str
    label: str  # value of the family's one label, "" where it has none
    help: str


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
    "connected": "1 where every process of the engine has a connection with its daemon.",
}


class Recorder:
    """Counts of one process (scheduler or worker); one thread at a time. A name that isn't in the
    tables is a bug of the connector: KeyError."""

    def count(self, name: str, amount: int = 1) -> None:
        """Adds to a counter."""

    def count_load(self, status: int, amount: int = 1) -> None:
        """Pages of a load that ended with a Status: load_pages_*."""

    def count_store(self, status: int, amount: int = 1) -> None:
        """Pages of a store that ended with a Status: store_pages_*."""

    def observe(self, name: str, seconds: float) -> None:
        """One more duration."""

    def gauge(self, name: str, value: float) -> None:
        """Sets a gauge; ranks' values are joined by the least."""

    def take(self) -> Optional["Stats"]:
        """What came since the last take, None if nothing did."""
        raise NotImplementedError


class Stats(KVConnectorStats):
    """data = {"counters": {name: int}, "times": {name: [count, sum, [samples]]}, "gauges": {name:
    float}}: plain, so that it can be sent and joined."""


class PromMetrics(KVConnectorPromMetrics):
    def observe(self, transfer_stats_data: Dict[str, Any], engine_idx: int = 0) -> None:
        raise NotImplementedError
