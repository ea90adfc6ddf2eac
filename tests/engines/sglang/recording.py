# SPDX-License-Identifier: Apache-2.0
"""A storage of SGLang's that keeps everything in a dict and records each call: with it the test bed
itself is checked.

In an engine it lives in the scheduler's process. A test reads its calls from the file that
extra_config["calls"] names, a line of JSON each, and turns its poison on by the file
extra_config["poison"]: while that exists, every byte it gives back of the pools named in it is
wrong.
"""
import ctypes
import json
import os
import threading

from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage, PoolHitPolicy, PoolName, PoolTransferResult)

POISON = 0x81


def is_poisoned(extra, pool):
    path = extra.get("poison")
    if not path or not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return str(pool) in file.read().split()


def poisoned(piece):
    return bytes(byte ^ POISON for byte in piece)


class Recording(HiCacheStorage):
    def __init__(self, storage_config, kwargs):
        self.config = storage_config
        self.extra = storage_config.extra_config or {}
        self.pools = {}
        self.pages = {}  # (pool, key): the pieces of a page
        self.calls = []  # [name, what of it matters]
        self._lock = threading.Lock()
        self._record("__init__")

    def _record(self, name, *told):
        call = [name, *told]
        with self._lock:
            self.calls.append(call)
            if "calls" in self.extra:
                with open(self.extra["calls"], "a", encoding="utf-8") as file:
                    file.write(json.dumps(call) + "\n")

    def names(self):
        return [call[0] for call in self.calls]

    # Registration.

    def register_mem_pool_host(self, mem_pool_host):
        super().register_mem_pool_host(mem_pool_host)
        self.pools[PoolName.KV] = mem_pool_host
        self._record("register_mem_pool_host", type(mem_pool_host).__name__)

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self.pools[host_pool_name] = host_pool
        self._record("register_mem_host_pool_v2", str(host_pool_name), type(host_pool).__name__)

    def on_host_pools_registered(self):
        self._record("on_host_pools_registered")

    # Bytes.

    def _pieces(self, pool, slots):
        """For each page its [(address, bytes)]."""
        host = self.pools[pool]
        if not len(slots):
            return []
        pointers, sizes = host.get_page_buffer_meta(slots)[:2]
        pieces = list(zip(pointers, sizes))
        each = len(pieces) // (len(slots) // host.page_size)
        return [pieces[at:at + each] for at in range(0, len(pieces), each)]

    def _set(self, pool, keys, slots):
        for key, pieces in zip(keys, self._pieces(pool, slots), strict=True):
            self.pages[pool, key] = [ctypes.string_at(*piece) for piece in pieces]
        return [True] * len(keys)

    def _get(self, pool, keys, slots):
        wrong = is_poisoned(self.extra, pool)
        hits = []
        for key, pieces in zip(keys, self._pieces(pool, slots), strict=True):
            page = self.pages.get((pool, key))
            hits.append(page is not None)
            for (address, _), piece in zip(pieces, page or ()):
                ctypes.memmove(address, poisoned(piece) if wrong else piece, len(piece))
        return hits

    # Questions.

    def _leading(self, pool, keys):
        return next((at for at, key in enumerate(keys) if (pool, key) not in self.pages),
                    len(keys))

    def batch_exists(self, keys, extra_info=None):
        found = self._leading(PoolName.KV, keys)
        self._record("batch_exists", len(keys), found)
        return found

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        found = self._leading(PoolName.KV, keys)
        fit = set(range(1, found + 1))
        each = {PoolName.KV: found}
        for transfer in pool_transfers or ():
            if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
                here = set(range(1, self._leading(transfer.name, keys) + 1))
            else:
                window = max(1, len(transfer.keys or ()))
                here = {end for end in range(1, found + 1)
                        if all((transfer.name, key) in self.pages
                               for key in keys[max(0, end - window):end])}
            each[transfer.name] = max(here, default=0)
            fit &= here
        self._record("batch_exists_v2", len(keys), max(fit, default=0))
        return PoolTransferResult(max(fit, default=0), each, sorted(fit))

    # Transfers.

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        self._record("batch_set_v1", len(keys))
        return self._set(PoolName.KV, keys, host_indices)

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        hits = self._get(PoolName.KV, keys, host_indices)
        self._record("batch_get_v1", len(keys), sum(hits))
        return hits

    def batch_set_v2(self, transfers, extra_info=None):
        self._record("batch_set_v2", {str(one.name): len(one.keys) for one in transfers})
        return {one.name: self._set(one.name, one.keys, one.host_indices) for one in transfers}

    def batch_get_v2(self, transfers, extra_info=None):
        hits = {one.name: self._get(one.name, one.keys, one.host_indices) for one in transfers}
        self._record("batch_get_v2", {str(name): sum(each) for name, each in hits.items()})
        return hits

    # The old interface, page by page as flat tensors (extra_config without "interface_v1").

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        self._record("batch_set", len(keys))
        for key, value in zip(keys, values, strict=True):
            self.pages[PoolName.KV, key] = [value.clone()]
        return True

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        found = [self.pages.get((PoolName.KV, key), [None])[0] for key in keys]
        self._record("batch_get", len(keys), sum(page is not None for page in found))
        return found

    def set(self, key, value=None, target_location=None, target_sizes=None):
        return self.batch_set([key], [value])

    def get(self, key, target_location=None, target_sizes=None):
        return self.batch_get([key])[0]

    def exists(self, key):
        return (PoolName.KV, key) in self.pages

    # Life.

    def clear(self):
        self._record("clear", len(self.pages))
        self.pages.clear()

    def close(self):
        self._record("close")
