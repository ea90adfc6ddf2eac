# SPDX-License-Identifier: Apache-2.0
"""What one forward loads: a batch of requests, one operation a pool."""
from __future__ import annotations

import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import Op, Status
from .linker_transfers import Pages, split

# Of a page: the next lookup will say so itself.
SEEN_BY_LOOKUPS = (Status.MISS, Status.UNAVAILABLE, Status.STALE_NAMESPACE, Status.DRAINING)


class LoadFailed(Exception):
    """What the layers of a batch end with."""


class Queued(NamedTuple):
    """One request's load."""

    pages: List[Pages]
    leases: Tuple[int, ...]


class Part:
    """What a batch loads into one pool."""

    __slots__ = ("pool", "op", "pages")

    def __init__(self, pages: Pages, op: Op) -> None:
        self.pool, self.op, self.pages = pages.pool, op, pages

    @property
    def keys(self) -> List[bytes]:
        return split(self.pages)

    @property
    def count(self) -> int:
        return len(self.pages.blocks)

    def runs(self) -> int:
        """In place, of each page."""
        return int(self.op.progress)

    @property
    def failure(self) -> Optional[str]:
        """Of a finished one: why it isn't whole."""
        result = self.op.result()
        if result.ok and result.succeeded == self.count:
            return None
        bad = [status for status in result._items if status > Status.EXISTS]
        status = Status(bad[0]) if bad else result.status
        return (f"pool {self.pool.name}: {len(bad) or self.count} of {self.count} pages "
                f"{status.name} {result.text}").rstrip()

    @property
    def refused_keys(self) -> List[bytes]:
        """Of a finished one: pages that a lookup may offer again and that then fail again."""
        items = self.op.result()._items
        return [key for key, status in zip(self.keys, items)
                if status > Status.EXISTS and status not in SEEN_BY_LOOKUPS]


class Batch:
    """The loads of one forward."""

    __slots__ = ("index", "parts", "layers", "leases", "deadline_ns", "landed", "failure", "late",
                 "told", "ended", "began_ns")

    def __init__(self, index: int, layers: int, began_ns: int, deadline_ns: int) -> None:
        self.index, self.layers = index, layers
        self.began_ns, self.deadline_ns = began_ns, deadline_ns
        self.parts: List[Part] = []
        self.leases: List[int] = []
        self.landed = 0  # layers that were told as done
        self.failure: Optional[str] = None
        self.late = False  # it failed at its deadline
        self.told = False  # the layers that are left were told as failed
        self.ended = threading.Event()

    @classmethod
    def lost(cls) -> "Batch":
        """One that never began."""
        batch = cls(-1, 0, 0, 0)
        batch.failure = "it couldn't begin"
        return batch

    @property
    def whole(self) -> bool:
        """Of an ended one."""
        return self.failure is None and self.landed == self.layers

    @property
    def doubtful_keys(self) -> List[bytes]:
        """Of an ended one that isn't whole: pages that no request is sent to for a while."""
        if self.late:
            return [key for part in self.parts for key in part.keys]
        return [key for part in self.parts for key in part.refused_keys]


def merged(loads: Any) -> List[Pages]:
    """Pages of one pool are loaded by one operation, so that it goes layer by layer over all."""
    by_pool: Dict[Tuple[str, int], List[Pages]] = {}
    for load in loads:
        for pages in load.pages:
            by_pool.setdefault((pages.pool.name, pages.key_bytes), []).append(pages)
    return [Pages(found[0].pool, b"".join(pages.keys for pages in found), found[0].key_bytes,
                  [block for pages in found for block in pages.blocks])
            for found in by_pool.values()]
