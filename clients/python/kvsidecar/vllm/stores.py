# SPDX-License-Identifier: Apache-2.0
"""Stores in flight of one worker. Their blocks stay the engine's to free and to give away: before
somebody else's bytes go into a block, what is left of its store is revoked or abandoned, and never
becomes a page. Worker's thread only; nothing waits."""
from __future__ import annotations

import time
from typing import Dict, List, Optional, Sequence, Tuple

from .. import Fence, Layout, Op, Status
from .metadata import Store
from .metrics import Recorder
from .session import Session

STORED = (Status.OK, Status.OK_PART, Status.EXISTS)
_FLAGS = bytes(1 if status in STORED else 0 for status in range(256))


class Put:
    """One operation: the pages of one group that became whole in one step."""

    __slots__ = ("op", "group", "blocks", "tickets", "life", "began_ns")

    def __init__(self, op: Op, group: int, blocks: Sequence[int],
                 tickets: List[Tuple[int, int, int]], life: int) -> None:
        self.op = op
        self.life = life
        self.group = group
        self.blocks = blocks  # one may be there twice: requests share prefixes
        self.tickets = tickets  # (ticket, begin, end) of those who want to hear of it
        self.began_ns = time.monotonic_ns()


class Stores:
    def __init__(self, session: Session, layouts: Dict[int, Layout], groups: Sequence[int],
                 recorder: Recorder) -> None:
        """groups: those that this rank stores."""
        self._session = session
        self._layouts = layouts
        self._groups = set(groups)
        self._recorder = recorder
        self._puts: Dict[int, Put] = {}  # by operation
        self._told: Dict[int, bytes] = {}
        self._ended: List[int] = []  # operations that give_up() has seen ended
        # The engine's life in which a store found that somebody else has cleared the namespace.
        self.stale_in: Optional[int] = None

    def __len__(self) -> int:
        return len(self._puts)

    def start(self, stores: Sequence[Store], after: Tuple[Optional[Fence], int]) -> None:
        """Begins them, an operation per group and key length. after: fence and value that the
        forward which fills the blocks signals."""
        batches: Dict[Tuple[int, int], List[Store]] = {}
        for store in stores:
            if store.pages.group in self._groups:
                batches.setdefault((store.pages.group, store.pages.key_bytes), []).append(store)
        for (group, key_bytes), batch in batches.items():
            self._start(group, key_bytes, batch, after)

    def _start(self, group: int, key_bytes: int, batch: List[Store],
               after: Tuple[Optional[Fence], int]) -> None:
        client, layout = self._session.client, self._layouts.get(group)
        namespace = self._session.namespaces.get(group)
        blocks = [block for store in batch for block in store.pages.blocks]
        tickets, begin = [], 0
        for store in batch:
            end = begin + len(store.pages.blocks)
            if store.ticket:
                tickets.append((store.ticket, begin, end))
            begin = end
        self._recorder.count("stores", len(batch))
        if client is None or layout is None or namespace is None:
            self._recorder.count_store(Status.UNAVAILABLE, len(blocks))
            return self._tell(tickets, bytes(len(blocks)))
        keys = batch[0].pages.keys if len(batch) == 1 else \
            b"".join(store.pages.keys for store in batch)
        alone = batch[0] if len(batch) == 1 else None
        op = client.put(
            namespace, keys, layout, blocks, key_bytes=key_bytes, fence=after[0],
            fence_value=after[1], durable=self._session.settings.durable,
            position=alone.position if alone else 0,
            prompt_pages=alone.prompt_pages if alone else 0,
            timeout=self._session.settings.store_timeout_s)
        put = Put(op, group, blocks, tickets, self._session.life)
        if op.id == 0:  # it couldn't begin
            self._settle(put)
        else:
            self._puts[op.id] = put

    def give_up(self, blocks: Sequence[int]) -> None:
        """Before other bytes go into these blocks. From here on no page is made of them."""
        if not self._puts or not blocks:
            return
        touched = set(blocks)
        for put in self._puts.values():
            if touched.isdisjoint(put.blocks):
                continue
            if put.op.finished:
                self._ended.append(put.op.id)
            else:
                put.op.revoke([index for index, block in enumerate(put.blocks)
                               if block in touched])

    def give_up_all(self) -> None:
        """Before the blocks' memory goes."""
        for put in self._puts.values():
            if not put.op.finished:
                put.op.cancel()

    def settle(self) -> None:
        """Takes in what has ended since."""
        client = self._session.client
        if not self._puts or client is None:
            return
        ended = [event.op.id for event in client.poll()] + self._ended
        self._ended = []
        oldest = next(iter(self._puts))
        if self._puts[oldest].op.finished:
            ended.append(oldest)
        for op_id in ended:
            put = self._puts.get(op_id)
            if put is not None and put.op.finished:
                del self._puts[op_id]
                self._settle(put)

    def _settle(self, put: Put) -> None:
        result = put.op.result()
        items = result._items
        if len(items) != len(put.blocks):
            items = bytes((result.status or Status.INTERNAL,)) * len(put.blocks)
        for status in set(items):
            self._recorder.count_store(status, items.count(status))
        if Status.STALE_NAMESPACE in items:
            self.stale_in = put.life
        stored = sum(items.count(status) for status in STORED)
        copied = stored - items.count(Status.EXISTS)
        layout = self._layouts.get(put.group)  # none in sleep
        if copied and layout is not None:
            self._recorder.count("store_bytes", copied * layout.part_bytes)
        if stored < len(items):
            self._recorder.count("failed_stores")
        self._recorder.observe("store_seconds", (time.monotonic_ns() - put.began_ns) * 1e-9)
        self._tell(put.tickets, items.translate(_FLAGS))

    def _tell(self, tickets: List[Tuple[int, int, int]], flags: bytes) -> None:
        for ticket, begin, end in tickets:
            self._told[ticket] = flags[begin:end]

    def told(self) -> Dict[int, bytes]:
        """Per ticket, which of its pages are stored: once."""
        told, self._told = self._told, {}
        return told

    def drain(self, seconds: float) -> None:
        """At the engine's end: waits for what is still being stored."""
        client = self._session.client
        if client is not None and self._puts:
            client.wait_all([put.op for put in self._puts.values()], timeout=seconds)
