# SPDX-License-Identifier: Apache-2.0
"""Offloads of the linker: each is all or nothing, and they are told in the order they came. SGLang
keeps the pages locked until an offload is told, so that nothing else is written into them.

Pages that were loaded or stored lately come again and again: the daemon isn't asked about them.
Scheduler's thread only; nothing waits but give_up_all().
"""
from __future__ import annotations

import logging
import time
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Sequence

from .. import Op, Status
from ..errors import Misuse
from .linker_transfers import Pages, split

logger = logging.getLogger("sglang.kvsidecar")

STORED = (Status.OK, Status.OK_PART, Status.EXISTS)
KNOWN_MAX = 65_536  # pages of a pool
KNOWN_NS = 60_000_000_000  # a page isn't taken for stored longer than that


class Known:
    """Which pages of one pool the daemon has been seen to have."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._until: Dict[bytes, int] = {}

    def add(self, keys: Sequence[bytes]) -> None:
        until = self._clock() + KNOWN_NS
        for key in keys:
            self._until.pop(key, None)  # the newest last
            self._until[key] = until
        while len(self._until) > KNOWN_MAX:
            del self._until[next(iter(self._until))]

    def unknown(self, keys: Sequence[bytes]) -> List[int]:
        """Indices of those that aren't known."""
        now = self._clock()
        return [index for index, key in enumerate(keys) if self._until.get(key, 0) <= now]

    def forget(self) -> None:
        self._until.clear()


class Put(NamedTuple):
    """What an offload stores of one pool."""

    name: str
    op: Op
    keys: List[bytes]
    epoch: int  # of the daemon


class Offload:
    __slots__ = ("puts", "stored")

    def __init__(self) -> None:
        self.puts: List[Put] = []
        self.stored: Optional[bool] = None  # None: not known yet


class Offloads:
    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._known: Dict[str, Known] = {}
        self._pending: Deque[Offload] = deque()
        self._told = 0  # of them, those at the front whose end is known
        self.stale = False  # somebody else has cleared a namespace
        self.epoch = 0  # of the daemon that puts go to

    def known(self, pool: str) -> Known:
        return self._known.setdefault(pool, Known(self._clock))

    def submit(self, pages: Sequence[Pages],
               begin: Callable[[Pages], Optional[Op]]) -> None:
        """Begins one. begin: makes the put of one pool's pages, None where there is nobody to ask.
        pages: of the pools that this rank writes; none: it is stored already."""
        offload = Offload()
        self._pending.append(offload)
        try:
            for some in pages:
                if not self._begin(offload, some, begin):
                    offload.stored = False
                    break
        except Exception:
            offload.stored = False
            raise
        finally:
            if offload.stored is None and not offload.puts:
                offload.stored = True
            elif offload.stored is False:
                _give_up(offload)

    def _begin(self, offload: Offload, pages: Pages,
               begin: Callable[[Pages], Optional[Op]]) -> bool:
        keys = split(pages)
        new = self.known(pages.pool.name).unknown(keys)
        if not new:
            return True
        if len(new) < len(keys):
            keys = [keys[index] for index in new]
            pages = pages._replace(keys=b"".join(keys),
                                   blocks=[pages.blocks[index] for index in new])
        op = begin(pages)
        if op is None:
            return False
        offload.puts.append(Put(pages.pool.name, op, keys, self.epoch))
        return True

    def completed(self) -> int:
        """How many at the front have ended."""
        while self._told < len(self._pending) and self._ended(self._pending[self._told]):
            self._told += 1
        return self._told

    def _ended(self, offload: Offload) -> bool:
        if offload.stored is None:
            try:
                if all([put.op.finished for put in offload.puts]):
                    offload.stored = all([self._settled(put) for put in offload.puts])
            except Exception:  # its client was closed; SGLang has to hear of an end
                logger.exception("kvsidecar: an offload was lost")
                offload.stored = False
        return offload.stored is not None

    def _settled(self, put: Put) -> bool:
        items = put.op.result()._items
        stored = len(items) == len(put.keys) and all(status in STORED for status in items)
        if stored and put.epoch == self.epoch:
            self.known(put.name).add(put.keys)
        self.stale = self.stale or Status.STALE_NAMESPACE in items
        return stored

    def pop(self) -> bool:
        """Of the oldest: whether all of it is stored."""
        if not self.completed():
            return False
        self._told -= 1
        return bool(self._pending.popleft().stored)

    def give_up_all(self) -> int:
        """From here on none of their pages is read any more, and none of them is told; how many."""
        given_up, self._pending = self._pending, deque()
        self._told = 0
        for offload in given_up:
            _give_up(offload)
        return len(given_up)

    def forget(self) -> None:
        """The daemon may not have any of the known pages any more."""
        for known in self._known.values():
            known.forget()


def _give_up(offload: Offload) -> None:
    for put in offload.puts:
        try:
            if not put.op.finished:
                put.op.cancel()
        except Misuse:  # its client was closed: nothing is read any more
            pass

