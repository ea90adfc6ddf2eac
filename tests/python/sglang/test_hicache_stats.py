# SPDX-License-Identifier: Apache-2.0
"""Goal: SGLang's metrics see each pool's transfers, once.

Method: transfers with known numbers of pages, then get_stats as SGLang's tree calls it.
"""
import pytest

from hicache_scene import hashes
from host_pools import Mamba, Mha
from kvsidecar.sglang.storage_stats import StorageStats
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from sglang.srt.observability.metrics_collector import StorageMetrics

KEYS = hashes("a", 3)


@pytest.fixture
def backend(daemon, open_backend):
    return open_backend(daemon, pools={"kv": Mha(), "mamba": Mamba()}, enable_storage_metrics=True)


def transfers(backend):
    kv, mamba = backend.hosts["kv"], backend.hosts["mamba"]
    backend.batch_set_v2([PoolTransfer("mamba", mamba.slots(3), keys=KEYS[2:])])
    backend.batch_set_v1(KEYS, kv.slots(1, 2, 3))
    backend.batch_get_v1(KEYS, kv.slots(4, 5, 6))
    backend.batch_get_v2([PoolTransfer("mamba", mamba.slots(4), keys=KEYS[2:])])


def test_each_pools_transfers_are_counted_and_drained(backend):
    transfers(backend)
    found = backend.get_stats()
    assert isinstance(found, StorageMetrics)
    assert (found.prefetch_pgs, found.backup_pgs) == ([3, 1], [1, 3])
    assert len(found.prefetch_bandwidth) == len(found.backup_bandwidth) == 2
    assert all(0 < rate < 1000 for rate in found.prefetch_bandwidth + found.backup_bandwidth)
    assert backend.get_stats() == StorageMetrics()


def test_what_was_not_there_is_not_counted(backend):
    backend.batch_get_v1(KEYS, backend.hosts["kv"].slots(1, 2, 3))
    backend.batch_set_v1(KEYS[:2], backend.hosts["kv"].slots(1, 2))
    backend.batch_get_v1(KEYS, backend.hosts["kv"].slots(4, 5, 6))
    assert backend.get_stats().prefetch_pgs == [2]


def test_without_metrics_nothing_is_kept(daemon, open_backend):
    backend = open_backend(daemon, pools={"kv": Mha(), "mamba": Mamba()})
    transfers(backend)
    assert backend.get_stats() == StorageMetrics()


def test_an_engine_that_never_looks_does_not_fill_memory(backend, monkeypatch):
    import kvsidecar.sglang.storage_stats as storage_stats
    monkeypatch.setattr(storage_stats, "SAMPLES_MAX", 3)
    for _ in range(5):
        transfers(backend)
    found = backend.get_stats()
    assert len(found.prefetch_pgs) == len(found.backup_pgs) == 3


class TakenBetween:
    """A lock before which another thread has just looked."""

    def __init__(self, stats, taken):
        self._stats, self._taken, self._lock = stats, taken, stats._lock

    def __enter__(self):
        if not self._taken:
            self._taken.append(None)
            self._taken[0] = self._stats.take()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_two_readers_see_each_transfer_once_and_whole():
    stats, taken = StorageStats(True), []
    stats._lock = TakenBetween(stats, taken)
    stats.got(3, 300, 1)
    seen = [taken[0], stats.take()]
    assert [one.prefetch_pgs for one in seen] == [[], [3]]
    assert [len(one.prefetch_bandwidth) for one in seen] == [0, 1]
