# SPDX-License-Identifier: Apache-2.0
"""Gets and sets of whole pages between host pools and the daemon. Both wait, at most their
deadline; a get also for what is being copied at that moment, since it writes nothing after it has
returned."""
from __future__ import annotations

import ctypes
import time
from typing import Any, Dict, List, Sequence

from .. import Op, Status
from .flat import STORED, as_contiguous
from .hicache_settings import HiCacheSettings
from .page_numbers import Keys
from .patience import Patience
from .pools import HostPool
from .session import Session
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

    def set(self, pool: HostPool, keys: Keys, pages: Any, host_indices: Any) -> List[bool]:
        """Whether each page is stored, or was before."""
        if not pool.writes:
            return [True] * keys.length
        began, seconds = time.monotonic(), self._set_patience.deadline_s()
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

    def get(self, pool: HostPool, keys: Keys, pages: Any, host_indices: Any) -> List[bool]:
        """Whether each page's bytes are in their place now."""
        began, seconds = time.monotonic(), self._get_patience.deadline_s()
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
        client = self._session.client
        ops: List[Any] = []
        for share in pool.shares if client is not None else ():
            namespace = self._session.namespace(share.name)
            if namespace is None or client is None:
                return self._given_up(client, ops, keys.length)
            more: Dict[str, Any] = {"key_bytes": keys.key_bytes, "coordinate": share.coordinate,
                                    "timeout": seconds}
            if put:
                more["durable"] = self._settings.durable
            begin = client.put if put else client.get
            ops.append((share.name, begin(namespace, keys.joined, share.layout, pages, **more)))
        if not ops:
            return [False] * keys.length
        table = _STORED if put else _LOADED
        flags, answered = [True] * keys.length, False
        for name, op in ops:
            items = self._items(name, op, keys.length)
            answered |= items != _UNANSWERED * keys.length
            flags = [one and bool(other) for one, other in zip(flags, items.translate(table))]
        (self._set_patience if put else self._get_patience).ended(seconds, answered)
        return flags

    def _items(self, name: str, op: Op, count: int) -> bytes:
        """A status a page, when nothing can be written any more."""
        result = op.result()
        if result.status == Status.STALE_NAMESPACE:
            self._session.stale(name)
        items = result._items
        return items if len(items) == count else bytes((result.status or Status.INTERNAL,)) * count

    @staticmethod
    def _given_up(client: Any, ops: Sequence[Any], count: int) -> List[bool]:
        for _, op in ops:
            op.cancel()
            op.result()
        return [False] * count
