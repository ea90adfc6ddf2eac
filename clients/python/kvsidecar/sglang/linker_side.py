# SPDX-License-Identifier: Apache-2.0
"""The linker itself, without SGLang's base class: what each of its calls does."""
from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Optional, Sequence

from .. import Op
from .facts import facts_of_process
from .linker_batch import Batch
from .linker_lives import Lives
from .linker_loads import Follower, Loads
from .linker_lookups import Lookups, Promise
from .linker_memory import device_for
from .linker_offloads import Offloads
from .linker_pace import Pace
from .linker_pools import assembled, device_pools
from .linker_settings import LinkerSettings
from .linker_start import (
    Registered, attach, own_id, ranks_of, session_of, shared, tensors_by_pool)
from .linker_transfers import Pages, asked, expanded
from .session import AT_ONCE_S

logger = logging.getLogger("sglang.kvsidecar")

CLOSE_S = 10.0  # for loads that are being copied
VERSION = "weight_version"  # as SGLang calls it
KINDS = ("lookups", "hits", "hit_pages", "late_answers", "loads", "failed_loads", "refused_loads",
         "offloads", "stored", "not_stored")


class Side:
    """One worker's. Scheduler's thread only; the loads' own thread is inside."""

    def __init__(self, server_args: Any, params: Any, components: Any, extra_config: Any,
                 make_counter: Any) -> None:
        """May wait for the daemon's first answers, connect_timeout and attach_timeout at most.
        Misuse, with a sentence, for settings or a model that can't be served. make_counter: gives a
        LayerWiseLoadCounter for a number of layers."""
        self.settings = LinkerSettings.read(extra_config)
        self._facts = facts_of_process(server_args)
        self.ranks = ranks_of(params, self._facts)
        self._own_id = own_id(self.ranks, params)
        kvcache = params.token_to_kv_pool_allocator.get_kvcache()
        group = assembled(kvcache, params, components)
        self._device = device_for(tensors_by_pool(group))
        shared(group, self._device)
        group = assembled(kvcache, params, components)  # with the addresses of now
        self.entries: Dict[Any, Any] = group.entry_map
        self.pools = device_pools(group)
        self.counter = make_counter(group.num_layers)
        if "mamba" in self.pools:
            params.req_to_token_pool.register_layer_transfer_counter(self.counter)
        self._version = self._facts.text(VERSION)
        self._moved = False  # since the namespaces were attached to
        self.session = session_of(self.settings, self.ranks, self._own_id, self._version)
        try:
            self._registered = Registered()
            usable = self._registered.register(self.session, self._device, self.pools,
                                               self.settings.attach_timeout_s)
            self._writes = attach(self.session, self._facts, self.ranks, self.settings, self.pools,
                                  params.page_size) if usable else {}
        except BaseException:
            self.session.close(CLOSE_S)
            raise
        self._epoch = 0
        self._alone = self.ranks.tp_size * self.ranks.pp_size * self.ranks.cp_size == 1
        self._lives = Lives(self.session, self._own_id)
        self._pace = Pace(self.settings.lookup_s, self.settings.idle_lookup_s)
        self._lookups = Lookups(self.session, self.pools, self.settings.lease_s)
        self._offloads = Offloads()
        self._loads = Loads(self.counter)
        self._follower = Follower(self._loads)
        self._out = False  # after a fault of ours in reset: no page of before may be used
        self._closed = False
        self.counts: Dict[str, int] = dict.fromkeys(KINDS, 0)

    def _follow_weights(self) -> None:
        """Pages of weights that have got another version aren't mixed with those of before."""
        version = self._facts.text(VERSION)
        if version != self._version:
            self._moved = True
            self._lives.leave()
            self.session.follow(version)
            self._offloads.forget()
            self._lookups.drop_all()
            self._version = version

    # Lookups.

    def lookup(self, rid: str, transfers: Sequence[Any]) -> List[int]:
        until_ns, sleep_ns = self._pace.lookup_until()
        if self._closed or self._out:
            return []
        self._follow_weights()
        question = asked(self.pools, transfers)
        if question is None:
            return []
        lengths = self._lookups.lengths(rid, question, until_ns, sleep_ns)
        self.counts["lookups"] += 1
        if lengths:
            self.counts["hits"] += 1
            self.counts["hit_pages"] += lengths[-1]
        if self._lookups.stale:
            self._lookups.stale = False
            self._stale()
        return lengths

    def _stale(self) -> None:
        self._offloads.forget()
        if not self._lives.again():
            for name in self.pools:
                self.session.stale(name)

    # Loads.

    def load(self, rid: str, transfers: Sequence[Any]) -> bool:
        pages = expanded(self.pools, transfers)
        if len(pages) != len(self.pools) or self._loads.is_queued(rid) or self._closed:
            return False
        promise = self._lookups.taken(rid)
        # With other ranks the answer may depend on the transfers alone; the load fails instead.
        if self._alone and not self._can_get(promise):
            self._lookups.release(promise.leases)
            self.counts["refused_loads"] += 1
            return False
        self._loads.queue(rid, pages, promise.leases)
        return True

    def _can_get(self, promise: Promise) -> bool:
        """Whether the daemon that has given the promise, or any, can be asked for every pool."""
        client = self.session.client
        return client is not None and client.connected and not self._out and \
            promise.epoch in (0, client.epoch) and all([
                name in self._registered.layouts and self.session.namespace(name) is not None
                for name in self.pools])

    def start(self) -> int:
        self._lookups.next_batch()
        index = self._loads.start(self._get, self.settings.load_timeout_s)
        if index >= 0:
            self.counts["loads"] += 1
            self._follower.wake()
        return index

    def _get(self, pages: Pages) -> Optional[Op]:
        client = None if self._out else self.session.client
        namespace = self.session.namespace(pages.pool.name)
        layout = self._registered.layouts.get(pages.pool.name)
        if client is None or namespace is None or layout is None:
            return None
        fence, value = self._device.computed()
        return client.get(namespace, pages.keys, layout, pages.blocks, key_bytes=pages.key_bytes,
                          fence=fence, fence_value=value, layered=True,
                          timeout=self.settings.load_timeout_s)

    def finish(self, index: int) -> bool:
        batches = self._loads.finish(index)
        for batch in batches:
            self._settle(batch)
            if not batch.whole:
                self.counts["failed_loads"] += 1
                self._offloads.forget()
                # Nothing else keeps the same request from the same load.
                self._lookups.avoid(batch.doubtful_keys)
                logger.error("kvsidecar: the load of a batch failed: %s", batch.failure)
        return all([batch.whole for batch in batches])

    def _settle(self, batch: Batch) -> None:
        self._lookups.release(batch.leases)
        if batch.whole:
            for part in batch.parts:
                self._offloads.known(part.pool.name).add(part.keys)

    def cancel(self, rid: str) -> bool:
        queued = self._loads.cancel(rid)
        if queued is None:
            return False
        self._lookups.release(queued.leases)
        return True

    # Offloads.

    def offload(self, linker: Any, transfers: Sequence[Any]) -> bool:
        pages = expanded(self.pools, transfers)
        if not pages:
            return False
        self._notice_epoch()
        self.counts["offloads"] += 1
        mine = [some for some in pages if self._writes.get(some.pool.name, True)]
        try:  # from here on it is told in its turn, on all ranks alike
            self._offloads.submit(mine, self._putter(linker))
        except Exception as error:
            self.session.say_once(f"an offload couldn't begin: {error!r}", logging.ERROR)
        return True

    def _putter(self, linker: Any) -> Callable[[Pages], Optional[Op]]:
        """What begins the puts of one offload, each of a pool."""
        ready: List[Any] = []

        def put(pages: Pages) -> Optional[Op]:
            if not ready:
                self._follow_weights()
                ready.append(self._device.offload_ready(linker))
            return self._put(pages, ready[0])

        return put

    def _notice_epoch(self) -> None:
        """Another life of the daemon may have other pages."""
        client = self.session.client
        if client is not None and client.epoch != self._epoch:
            self._epoch = self._offloads.epoch = client.epoch
            self._offloads.forget()

    def _put(self, pages: Pages, ready: Any) -> Optional[Op]:
        client = None if self._out else self.session.client
        namespace = self.session.namespace(pages.pool.name)
        layout = self._registered.layouts.get(pages.pool.name)
        if client is None or namespace is None or layout is None:
            return None
        return client.put(namespace, pages.keys, layout, pages.blocks, key_bytes=pages.key_bytes,
                          fence=ready[0], fence_value=ready[1], durable=self.settings.durable,
                          timeout=self.settings.store_timeout_s)

    def completed_offloads(self) -> int:
        self._pace.step()
        self._lookups.late.look()
        self.counts["late_answers"] = self._lookups.late.count
        self._follow_weights()
        self._notice_epoch()
        count = self._offloads.completed()
        if self._offloads.stale:
            self._offloads.stale = False
            self._stale()
        return count

    def pop_offload(self) -> bool:
        stored = self._offloads.pop()
        self.counts["stored" if stored else "not_stored"] += 1
        return stored

    # Ends.

    def quiesce(self) -> None:
        """Afterwards nobody but the engine touches its memory."""
        try:
            for batch in self._loads.quiesce():
                self._lookups.release(batch.leases)
        finally:
            self.counts["not_stored"] += self._offloads.give_up_all()
            self._offloads.forget()
            self._lookups.drop_all()
            self.counter.reset()

    def reset(self) -> None:
        """Should it fail, no page of before is used any more until one succeeds."""
        self._out = True
        self.quiesce()
        if not self._closed:
            self._enter_next_life()
        self._out = False

    def _enter_next_life(self) -> None:
        self._follow_weights()
        if self.settings.on_reset == "detach":
            self._lives.next()
            self.session.say_once(
                "the cache was reset: this engine goes on in a namespace of its own; what was "
                "stored before stays for other engines, and this one loads it no more. Where a "
                'reset never comes with new weights, set "on_reset": "keep"', logging.INFO)
        if self._moved:
            self._moved = False
            self.session.clear(AT_ONCE_S)  # attaches to those of the version
        elif self.settings.on_reset == "clear":
            self.session.clear(self.settings.attach_timeout_s)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.quiesce()
        finally:
            self._follower.close(CLOSE_S)
            self._registered.layouts.clear()
            self._registered.regions = []
            self.session.close(CLOSE_S)
        logger.info("kvsidecar: linker closed: %s",
                    ", ".join(f"{name} {count}" for name, count in self.counts.items()))
