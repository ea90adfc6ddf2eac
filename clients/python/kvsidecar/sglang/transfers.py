# SPDX-License-Identifier: Apache-2.0
"""Gets and sets of whole pages between host pools and the daemon. Both wait, at most their
deadline; a get also for what is being copied at that moment, since it writes nothing after it has
returned."""
from __future__ import annotations

import ctypes
import math
import time
from typing import Any, Dict, List, Sequence, Tuple

from .. import Op, Status
from .flat import LEAST_S, STORED, as_contiguous
from .hicache_settings import HiCacheSettings
from .page_numbers import Keys
from .patience import Patience
from .pools import HostPool
from .session import PASSING, Session
from .storage_stats import StorageStats


_UNANSWERED = bytes((Status.TIMEOUT,))
_STORED = bytes(1 if status in STORED else 0 for status in range(256))
_LOADED = bytes(1 if status == Status.OK else 0 for status in range(256))


class Transfers:
    """Any thread."""

    def __init__(self, session: Session, settings: HiCacheSettings, stats: StorageStats) -> None:
        self._session, self._settings, self._stats = session, settings, stats
        self._set_patience = Patience(settings.set_timeout_s)
        self._get_patience = Patience(settings.get_timeout_s)

    def set(self, pool: HostPool, keys: Keys, pages: Any, host_indices: Any,
            end: float = math.inf) -> List[bool]:
        """Whether each page is stored, or was before. end: by time.monotonic(), of the call that
        this is a part of."""
        if not pool.writes:
            return [True] * keys.length
        began = time.monotonic()
        seconds = max(min(self._set_patience.deadline_s(), end - began), LEAST_S)
        if pool.flat is not None:
            held: List[Any] = []  # until its bytes are copied

            def page(index: int) -> Any:
                held[:] = [as_contiguous(pool.host.get_data_page(
                    host_indices[index * pool.tokens], flat=True))]
                return held[0]

            flags = pool.flat.put(keys, page, seconds, self._settings.durable)
        else:
            flags = self._each_share(pool, keys, seconds, True, pages)
        self._stats.set(sum(flags), sum(flags) * pool.page_bytes, time.monotonic() - began)
        return flags

    def get(self, pool: HostPool, keys: Keys, pages: Any, host_indices: Any,
            end: float = math.inf) -> List[bool]:
        """Whether each page's bytes are in their place now. end: as of set."""
        began = time.monotonic()
        seconds = max(min(self._get_patience.deadline_s(), end - began), LEAST_S)
        if pool.flat is not None:
            target = as_contiguous(pool.host.get_dummy_flat_data_page())

            def take(index: int, address: int) -> None:
                ctypes.memmove(target.data_ptr(), address, pool.page_bytes)
                pool.host.set_from_flat_data_page(int(host_indices[index * pool.tokens]), target)

            flags = pool.flat.get(keys, take, seconds)
        else:
            flags = self._each_share(pool, keys, seconds, False, pages)
        self._stats.got(sum(flags), sum(flags) * pool.page_bytes, time.monotonic() - began)
        return flags

    def _each_share(self, pool: HostPool, keys: Keys, seconds: float, put: bool,
                    pages: Any) -> List[bool]:
        ops: List[Tuple[str, Op]] = []
        try:
            if not self._begin(pool, keys, seconds, put, pages, ops):
                return [False] * keys.length
            table = _STORED if put else _LOADED
            flags, answered = [True] * keys.length, False
            for name, op in ops:
                items = self._items(pool, name, op, keys.length)
                answered |= items != _UNANSWERED * keys.length
                flags = [one and bool(other) for one, other in zip(flags, items.translate(table))]
            (self._set_patience if put else self._get_patience).ended(seconds, answered)
            return flags
        finally:
            self._settle(ops)

    def _begin(self, pool: HostPool, keys: Keys, seconds: float, put: bool, pages: Any,
               ops: List[Tuple[str, Op]]) -> bool:
        """One operation a share, into `ops`. False: not all of them have a namespace."""
        client = self._session.client
        if client is None:
            return False
        for share in pool.shares:
            namespace = self._session.namespace(share.name)
            if namespace is None:
                return False
            more: Dict[str, Any] = {"key_bytes": keys.key_bytes, "coordinate": share.coordinate,
                                    "timeout": seconds}
            if put:
                more["durable"] = self._settings.durable
            begin = client.put if put else client.get
            ops.append((share.name, begin(namespace, keys.joined, share.layout, pages, **more)))
        return bool(ops)

    @staticmethod
    def _settle(ops: Sequence[Tuple[str, Op]]) -> None:
        """Whatever has come between: nothing is written any more."""
        for _, op in ops:
            if not op.finished:
                op.cancel()
                op.result()

    def _items(self, pool: HostPool, name: str, op: Op, count: int) -> bytes:
        """A status a page, when nothing can be written any more."""
        result = op.result()
        if result.status == Status.STALE_NAMESPACE:
            self._session.stale(name)
        elif result.status not in PASSING:
            self._session.say_once(f"pages of pool {pool.name} were neither loaded nor stored: "
                                   f"{result.status.name} {result.text}")
        items = result._items
        return items if len(items) == count else bytes((result.status or Status.INTERNAL,)) * count
