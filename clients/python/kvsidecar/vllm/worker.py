# SPDX-License-Identifier: Apache-2.0
"""A worker's side: registers the KV cache and does what the scheduler's side has ordered."""
from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .. import Layout, Region, Run, Status
from ..plugin.connection import accepted
from .identity import GroupSpace
from .layout import LayerRun, group_runs, part_bytes
from .loads import Ended, Loads
from .memory import Device, device_for
from .metadata import StepMetadata, StepReport
from .metrics import Recorder
from .parts import Bytes, own_coordinates, spaces_of, stores_group, world_size
from .session import Session
from .settings import Settings
from .stores import Stores

logger = logging.getLogger("vllm.kvsidecar")

DRAIN_S = 2.0  # at the engine's end, for stores that are under way
CLOSE_S = 10.0  # and for loads that are being copied


class WorkerSide:
    """Called by the worker's one thread, step by step; shutdown() by any."""

    def __init__(self, vllm_config: Any, kv_cache_config: Any, settings: Settings) -> None:
        self._config, self._kv_config, self._settings = vllm_config, kv_cache_config, settings
        self.rank = int(vllm_config.parallel_config.rank)
        self.recorder = Recorder(f"worker {self.rank}")
        self._device: Device = device_for(vllm_config)
        self.session = Session(settings, f"vllm worker {self.rank}")
        self._spaces: List[GroupSpace] = []
        self._layouts: Dict[int, Layout] = {}
        self._loads = Loads(self.session, self._layouts, self.recorder)
        self._stores = Stores(self.session, self._layouts, (), self.recorder)
        self._several_groups = len(kv_cache_config.kv_cache_groups) > 1
        self._ended = Ended(set(), {}, set())
        self._tell_spaces = False
        self._regions: List[Region] = []
        self._leaving: List[Any] = []  # layouts, then regions, that sleep has to see released
        self._kv_caches: Dict[str, Any] = {}
        self._asleep = False

    # Start.

    def pool_context(self) -> Optional[AbstractContextManager[Any]]:
        return self._device.pool_context()

    def register(self, kv_caches: Dict[str, Any]) -> None:
        """Blocks until the daemon has answered, at most attach_timeout a registration. Without one
        all of it is made as soon as one answers."""
        self._device.refresh(kv_caches)
        self._kv_caches = kv_caches
        groups = range(len(self._kv_config.kv_cache_groups))
        runs = {group: group_runs(self._kv_config, kv_caches, group) for group in groups}
        mine = tuple(part_bytes(runs[group]) for group in groups)
        spaces = spaces_of(self._config, self._kv_config, self._settings, self._all_ranks(mine))
        self._spaces = [space for space in spaces if space.kind != "none"]
        self._tell_spaces = True
        self._stores = Stores(
            self.session, self._layouts,
            [s.group for s in self._spaces if stores_group(self._config, s, self.rank)],
            self.recorder)
        if self.session.client is None or not self._register_layouts(runs, kv_caches):
            return
        self.session.attach(self._spaces, world_size(self._config), self.rank,
                            own_coordinates(self._config, self._spaces, self.rank))

    def _register_layouts(self, runs: Dict[int, List[LayerRun]],
                          kv_caches: Dict[str, Any]) -> bool:
        client, timeout_s = self.session.client, self._settings.attach_timeout_s
        assert client is not None
        regions = self._device.register(client, storages_of(kv_caches), timeout_s)
        self._regions = list(regions.values())
        for region in self._regions:
            if not accepted(region, f"the KV cache's memory ({region.bytes} bytes)", logger):
                return False
        for space in self._spaces:
            layout = client.register_layout(
                self._kv_config.num_blocks,
                [Run(regions[run.storage], run.base, run.block_stride, run.length)
                 for run in runs[space.group]], timeout=timeout_s)
            if not accepted(layout, f"the layout of KV cache group {space.group}", logger):
                self._layouts.clear()
                return False
            self._layouts[space.group] = layout
        return True

    def _all_ranks(self, mine: Bytes) -> Dict[int, Bytes]:
        """Bytes of a part per rank. All ranks call this at the same moment of their start."""
        size = world_size(self._config)
        stages = int(self._config.parallel_config.pipeline_parallel_size)
        if stages == 1:
            return {rank: mine for rank in range(size)}
        import torch.distributed
        from vllm.distributed.parallel_state import get_pp_group
        told: List[Any] = [None] * stages
        torch.distributed.all_gather_object(told, mine, group=get_pp_group().cpu_group)
        return {rank: told[rank // (size // stages)] for rank in range(size)}

    # Sleep.

    def unregister(self) -> None:
        """Before the KV cache's memory goes: blocks until the daemon has closed its mappings.
        RuntimeError if it hasn't in CLOSE_S; then the memory must stay."""
        client, self._asleep = self.session.client, True
        self._loads.give_up_all(CLOSE_S)
        self._stores.give_up_all()
        self._leaving += [*self._layouts.values(), *self._regions]
        self._layouts.clear()
        self._regions = []
        while self._leaving and client is not None:
            status = self._leaving[0].release(CLOSE_S)
            if status in (Status.OK, Status.UNAVAILABLE):
                del self._leaving[0]
            else:
                raise RuntimeError(f"the daemon still has the KV cache's memory mapped "
                                   f"({status.name}); wait and ask for sleep again")

    def restore(self) -> None:
        """After the memory is back: a registration of its own, with a generation of its own."""
        if not self._asleep:
            return
        self._asleep = False
        if self.session.client is not None and self._kv_caches:
            groups = range(len(self._kv_config.kv_cache_groups))
            self._register_layouts({group: group_runs(self._kv_config, self._kv_caches, group)
                                    for group in groups}, self._kv_caches)

    # Steps, in the order in which vLLM calls them.

    def before_step(self, meta: StepMetadata) -> None:
        self.session.use_nonce(meta.nonce)
        if meta.life != self.session.life:
            self._loads.outlived(meta.life)
            self.session.enter(meta.life, meta.detached, meta.cleared)
        self._stores.give_up(meta.touched)

    def start_loads(self, meta: StepMetadata) -> None:
        if meta.loads:
            self._loads.start(meta.loads, self._device.computed())

    def start_stores(self, meta: StepMetadata) -> None:
        if meta.stores:
            self._stores.start(meta.stores, self._device.computed())
            meta.stores = []  # a release that calls twice in one step stores once

    def results(self, finished: Set[str]) -> Tuple[Set[str], Set[str]]:
        """(requests whose load has ended, those of them that failed)."""
        self._stores.settle()
        if finished and len(self._loads):
            self._loads.unwant(finished)
        if not len(self._loads):
            return set(), set()
        self._ended = self._loads.ended()
        return self._ended.requests, set(self._ended.failed) if self._several_groups else set()

    def bad_blocks(self) -> Set[int]:
        """Of the loads that results() has just told as ended. Several groups: told by request."""
        return set() if self._several_groups else self._ended.bad_blocks

    def report(self) -> Optional[StepReport]:
        stored = self._stores.told()
        report = StepReport(stored, {ticket: 1 for ticket in stored}, self._ended.failed)
        self._ended = Ended(set(), {}, set())
        report.stale_in, self._stores.stale_in = self._stores.stale_in, None
        if self._tell_spaces:
            self._tell_spaces = False
            report.spaces = tuple(self._spaces)
            report.refused = not (self._layouts and self.session.namespaces)
        return None if report.empty() else report

    def stats(self) -> Any:
        self.session.count_connection(self.recorder)
        return self.recorder.take()

    def shutdown(self) -> None:
        if self.session.client is not None:
            self._stores.drain(DRAIN_S)
        self.session.close(CLOSE_S)
        self._layouts.clear()
        self._device.close()


def storages_of(kv_caches: Dict[str, Any]) -> Dict[int, Any]:
    """The storages under the KV cache's tensors, each once, by address."""
    found: Dict[int, Any] = {}
    for tensor in kv_caches.values():
        views: Sequence[Any] = tensor if isinstance(tensor, (list, tuple)) else (tensor,)
        for view in views:
            storage = view.untyped_storage()
            found[storage.data_ptr()] = storage
    return found
