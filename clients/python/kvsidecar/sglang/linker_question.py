# SPDX-License-Identifier: Apache-2.0
"""One question to the daemon about a request's tail: which prefixes can be restored, and which of
their pages are in its host pool. A hybrid model's takes several lookups."""
from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .. import Found, Policy, Pool, PreparedLookup, Status
from ..status import Place
from .linker_pools import DevicePool
from .linker_transfers import Asked

ANSWER_S = 1.0  # a question's deadline in the daemon: its answer may come after the lookup


class Prepared:
    """The questions about one set of windows, each packed once."""

    def __init__(self, client: Any, namespaces: Dict[str, Any], pools: Dict[str, DevicePool],
                 trailing: Dict[str, int], lease_s: float) -> None:
        asked: List[Pool] = []
        by_source: Dict[str, List[Pool]] = {}
        for pool in pools.values():
            if pool.source == "kv":
                asked.append(Pool(namespaces[pool.name]))
            else:
                found = Pool(namespaces[pool.name], Policy.TRAILING_PAGES, trailing[pool.source])
                asked.append(found)
                by_source.setdefault(pool.source, []).append(found)
        self.whole = PreparedLookup(client, asked, lease=lease_s, prefetch=True, timeout=ANSWER_S)
        # Where the pages of windows and states are, which the whole answer doesn't say.
        self.beside = {source: PreparedLookup(client, found, timeout=ANSWER_S)
                       for source, found in by_source.items()}


class Question:
    """Sent on construction. Nothing in it waits."""

    def __init__(self, prepared: Prepared, asked: Asked, now_ns: int, lease_s: float,
                 epoch: int) -> None:
        count = min(asked.pages, prepared.whole.keys_max)  # what lies beyond isn't asked about
        keys = asked.keys[:count * asked.key_bytes]
        self.asked = asked
        self.epoch = epoch
        self.sent_ns, self.lease_end_ns = now_ns, now_ns + int(lease_s * 1e9)
        self.whole = prepared.whole.begin(keys, asked.key_bytes)
        self.beside: Dict[str, Found] = {
            source: lookup.begin(keys, asked.key_bytes)
            for source, lookup in prepared.beside.items()}

    @property
    def finished(self) -> bool:
        return self.whole.finished and all([found.finished for found in self.beside.values()])

    def wait(self, nanoseconds: int) -> None:
        """Until it has finished, at most so long; the thread sleeps, so that a daemon that shares
        its core can answer."""
        end = time.monotonic_ns() + nanoseconds
        for found in (self.whole, *self.beside.values()):
            left = end - time.monotonic_ns()
            if left > 0:
                found.wait(left)

    @property
    def failure(self) -> Optional[Tuple[Status, str]]:
        """Of a finished one that wasn't answered."""
        for found in (self.whole, *self.beside.values()):
            if found.status != Status.OK:
                return found.status, found.text
        return None

    def lengths(self) -> List[int]:
        """Of an answered one: prefixes in pages that can be restored from the host pool, and are
        leased."""
        if not self.whole.lease:
            return []
        end = min(self.whole.longest, _host_pages(self.whole.places_bytes))
        if not self.beside:
            return list(range(1, end + 1))
        possible = np.unpackbits(np.frombuffer(self.whole._restorable, np.uint8),
                                 bitorder="little")[:end].astype(bool)
        for source, found in self.beside.items():
            possible &= _windows_in_host(found.places_bytes, end, self.asked.trailing[source])
        return list((np.flatnonzero(possible) + 1).tolist())

    @property
    def prefetching(self) -> bool:
        """Whether more may be in the host pool soon."""
        longest = self.whole.longest
        return longest > 0 and (_host_pages(self.whole.places_bytes[:longest]) < longest or any(
            not _all_in_host(found.places_bytes, longest - self.asked.trailing[source], longest)
            for source, found in self.beside.items()))


def _host_pages(places: bytes) -> int:
    """How many from the beginning are in the host pool."""
    return len(places) - len(places.lstrip(bytes((Place.HOST,))))


def _windows_in_host(places: bytes, end: int, pages: int) -> Any:
    """[i] true: the last `pages` of a prefix of i + 1 are in the host pool, or all that it has."""
    present = np.zeros(end + 1, np.int64)
    np.cumsum(np.frombuffer(places, np.uint8)[:end] == Place.HOST, out=present[1:])
    lengths = np.arange(1, end + 1)
    begins = np.maximum(lengths - pages, 0)
    return present[lengths] - present[begins] == lengths - begins


def _all_in_host(places: bytes, begin: int, end: int) -> bool:
    begin = max(0, begin)
    return places[begin:end] == bytes((Place.HOST,)) * (end - begin)


def part_of(question: Question, asked: Asked) -> Optional[int]:
    """Pages by which a later ask begins after the question that it is a part of; None: it is about
    something else. SGLang moves the beginning, as its own cache grows, and the end: with some
    policies it asks about a whole prompt first and then without the last page."""
    if asked.key_bytes != question.asked.key_bytes or any(
            pages > question.asked.trailing.get(source, 0)
            for source, pages in asked.trailing.items()):
        return None
    at = question.asked.keys.find(asked.keys)
    return at // asked.key_bytes if at >= 0 and at % asked.key_bytes == 0 else None
