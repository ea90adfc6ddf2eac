# SPDX-License-Identifier: Apache-2.0
"""An external linker of SGLang's that keeps device pages in a dict and records each call, at once
and on the scheduler's own thread: with it the test bed of door B is checked.

extra_config: "calls" and "poison" as in recording.py; "fail_loads": a file that makes loads fail
while it exists.
"""
import ctypes
import json
import os

from recording import is_poisoned, poisoned
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import (
    LayerWiseLoadCounter, UnifiedCacheLinker)


class DevicePool:
    """The rows of a pool of keys and values, layer by layer."""

    def __init__(self, pool, page_size):
        self._buffers = [*pool.k_buffer, *pool.v_buffer]
        self._page_size = page_size

    def pages(self, slots):
        """[(address, bytes)] of each page."""
        for slot in slots[::self._page_size].tolist():
            yield [(buffer.data_ptr() + slot * buffer.stride(0) * buffer.element_size(),
                    self._page_size * buffer.stride(0) * buffer.element_size())
                   for buffer in self._buffers]


class RecordingLinker(UnifiedCacheLinker):
    def __init__(self, server_args, params, *, components, extra_config=None, forward_stream=None):
        self.forward_stream = forward_stream
        self.extra = extra_config or {}
        device = params.token_to_kv_pool_allocator.get_kvcache()
        kv = getattr(device, "full_kv_pool", device)
        self.pools = {PoolName.KV: DevicePool(kv, params.page_size)}
        if hasattr(device, "swa_kv_pool"):
            self.pools[PoolName.SWA] = DevicePool(device.swa_kv_pool, params.page_size)
        self.layer_done_counter = LayerWiseLoadCounter(device.layer_num)
        self.pages = {}  # (pool, key): the pieces of a page
        self._queued = {}  # request: transfers
        self._ended = []  # offloads that nobody has taken yet
        self._record("__init__", sorted(str(component) for component in components))

    def _record(self, name, *told):
        if "calls" in self.extra:
            with open(self.extra["calls"], "a", encoding="utf-8") as file:
                file.write(json.dumps([name, *told]) + "\n")

    def _pages_of(self, transfer):
        """(key, [(address, bytes)]) of each page."""
        return zip(transfer.keys, self.pools[transfer.name].pages(transfer.device_indices),
                   strict=True)

    # Questions.

    def lookup(self, rid, transfers):
        kv = next(transfer for transfer in transfers if transfer.name == PoolName.KV)
        lengths = [length for length in range(1, len(kv.keys) + 1)
                   if all(self._fits(one, kv.keys, length)
                          for one in transfers)]
        self._record("lookup", len(kv.keys), max(lengths, default=0))
        return lengths

    def _fits(self, transfer, keys, length):
        first = 0
        if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
            first = max(0, length - max(1, len(transfer.keys)))
        return all((transfer.name, key) in self.pages for key in keys[first:length])

    # Storage → device.

    def load(self, rid, transfers):
        self._record("load", {str(one.name): len(one.keys) for one in transfers})
        self._queued[rid] = transfers
        return True

    def cancel_queued_load(self, rid):
        return self._queued.pop(rid, None) is not None

    def start_layer_wise_loading(self):
        if not self._queued:
            return -1
        queued, self._queued = self._queued, {}
        index = self.layer_done_counter.update_producer()
        self._record("start_layer_wise_loading", index, len(queued))
        try:
            for transfers in queued.values():
                for transfer in transfers:
                    self._copy_in(transfer)
        except OSError as error:
            self.layer_done_counter.fail(index, error)
            return index
        for layer in range(self.layer_done_counter.num_layers):
            self.layer_done_counter.complete(index, layer)
        return index

    def _copy_in(self, transfer):
        if os.path.exists(self.extra.get("fail_loads", "")):
            raise OSError("loads fail as the test wants it")
        wrong = is_poisoned(self.extra, transfer.name)
        for key, pieces in self._pages_of(transfer):
            for (address, _), piece in zip(pieces, self.pages[transfer.name, key], strict=True):
                ctypes.memmove(address, poisoned(piece) if wrong else piece, len(piece))

    def finish_layer_wise_loading(self, counter_index):
        landed = self.layer_done_counter.finish(counter_index)
        self._record("finish_layer_wise_loading", counter_index, landed)
        return landed

    # Device → storage.

    def offload(self, transfers, session_id=None):
        self._record("offload", {str(one.name): len(one.keys) for one in transfers})
        for transfer in transfers:
            for key, pieces in self._pages_of(transfer):
                self.pages[transfer.name, key] = [ctypes.string_at(*piece) for piece in pieces]
        self._ended.append(True)
        return True

    def num_completed_offloads(self):
        return len(self._ended)

    def pop_completed_offload(self):
        return self._ended.pop(0)

    # Life.

    def reset(self):
        self._record("reset")
        self._queued.clear()
        self._ended.clear()
        self.layer_done_counter.reset()

    def close(self):
        self._record("close")
        self.reset()
