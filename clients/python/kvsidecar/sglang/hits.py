# SPDX-License-Identifier: Apache-2.0
"""Which prefixes of a prompt are stored, answered within a deadline, and the leases that keep them
until they are read."""
from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

from .. import Policy, Pool, Status
from ..prepared import FINDS_MAX, KEYS_MAX
from .hicache_settings import HiCacheSettings
from .page_numbers import Keys
from .session import PASSING, Session

LEASES_MAX = 1024  # that are remembered, to end them early; the rest end by themselves


class Asked(NamedTuple):
    """A pool of a query."""

    pool: str
    names: Sequence[str]  # of attachments: all of them must have a page
    trailing: int  # pages; 0: all


class Answer(NamedTuple):
    longest: int  # pages of the longest restorable prefix
    flags: Any = None  # [i] true: i + 1 pages are restorable; None: all up to the longest

    @property
    def restorable(self) -> List[int]:
        """All restorable lengths, in pages."""
        if self.flags is None:
            return list(range(1, self.longest + 1))
        return [i + 1 for i, flag in enumerate(self.flags) if flag]


NOTHING = Answer(0)


class Held(NamedTuple):
    lease: int
    end_ns: int
    pools: Set[str]  # that haven't been read to the prefix's end


class Hits:
    """Any thread."""

    def __init__(self, session: Session, settings: HiCacheSettings) -> None:
        self._session, self._settings = session, settings
        self._lock = threading.Lock()
        self._held: Dict[bytes, Held] = {}  # by the last key of the prefix
        self._releases: List[Any] = []  # one that nobody holds would be cancelled

    def ask(self, keys: Keys, asked: Sequence[Asked]) -> Answer:
        """Waits at most lookup_deadline. The pages are leased, and on their way into the host
        pool."""
        client = self._session.client
        if client is None or not keys.length:
            return NOTHING
        pools = []
        for one in asked:
            for name in one.names:
                namespace = self._session.namespace(name)
                if namespace is None:
                    return NOTHING
                pools.append(Pool(namespace, Policy.TRAILING_PAGES, one.trailing)
                             if one.trailing else Pool(namespace))
        most = min(KEYS_MAX, FINDS_MAX // len(pools))
        if keys.length > most:  # what lies beyond isn't asked about
            keys = keys.part(0, most)
        op = client.lookup(keys.joined, pools, key_bytes=keys.key_bytes,
                           lease=self._settings.lease_s, prefetch=True,
                           timeout=self._settings.lookup_deadline_s)
        result = op.result()
        if result.status != Status.OK:
            if result.status == Status.STALE_NAMESPACE:
                for one in asked:
                    for name in one.names:
                        self._session.stale(name)
            elif result.status not in PASSING:
                self._session.say_once("a query for stored pages wasn't answered: "
                                       f"{result.status.name} {result.text}")
            return NOTHING
        if result.lease:
            self._remember(keys, result, {one.pool for one in asked})
        if not result.longest:
            return NOTHING
        # Without a window every prefix of a restorable one is restorable.
        windows = any(one.trailing for one in asked)
        return Answer(result.longest, result.restorable if windows else None)

    def _remember(self, keys: Keys, result: Any, pools: Set[str]) -> None:
        now = time.monotonic_ns()
        held = Held(result.lease, now + int(self._settings.lease_s * 1e9), pools)
        key = keys.key(result.longest - 1) if result.longest else b""
        over: Optional[Held] = held
        with self._lock:
            if len(self._held) >= LEASES_MAX:
                self._forget_ended(now)
            if key and len(self._held) < LEASES_MAX:
                over = self._held.get(key)  # its prompt was asked about before
                self._held[key] = held
        if over is not None:
            self._release(over)

    def _forget_ended(self, now: int) -> None:
        for key in [key for key, held in self._held.items() if held.end_ns <= now]:
            del self._held[key]

    def read(self, pool: str, keys: Keys) -> None:
        """Pages of a pool were read, or couldn't be: when all pools' last ones were, the lease that
        a query took for them ends."""
        last = keys.last
        with self._lock:
            held = self._held.get(last)
            if held is None:
                return
            held.pools.discard(pool)
            if held.pools:
                return
            del self._held[last]
        self._release(held)

    def _release(self, held: Held) -> None:
        client = self._session.client
        if client is not None and held.end_ns > time.monotonic_ns():
            with self._lock:
                self._releases = [op for op in self._releases if not op.finished]
                self._releases.append(client.release(held.lease, timeout=1))

    def held(self) -> int:
        """Leases that are remembered."""
        return len(self._held)


def names_of(pool: Any) -> Optional[List[str]]:
    """The attachments under which a host pool's pages are stored; None: it isn't usable."""
    if pool is None or not pool.usable:
        return None
    if pool.flat is not None:
        return [pool.flat.label]
    return [share.name for share in pool.shares]
