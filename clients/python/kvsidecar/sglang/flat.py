# SPDX-License-Identifier: Apache-2.0
"""Pages that can't be read and written where they lie: each is copied as one flat piece through a
buffer that the daemon sees. For pools without fixed addresses, and for SGLang's older interface."""
from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

from .. import Layout, Memory, Op, Run, Status
from .identity import Engine, space_of
from .page_numbers import Keys
from .session import Session

BUFFER_BYTES = 32 << 20
SLOTS_MAX = 64
LEAST_S = 1e-3  # behind a deadline: what is done at once is still done
STORED = (Status.OK, Status.OK_PART, Status.EXISTS)


class Buffer:
    """Slots of one page each, shared with the daemon; made at first use. One thread at a time."""

    def __init__(self, session: Session, page_bytes: int) -> None:
        self._session, self._page_bytes = session, page_bytes
        self.slots = max(1, min(SLOTS_MAX, BUFFER_BYTES // max(page_bytes, 1)))
        self.lock = threading.Lock()
        self._memory: Optional[Memory] = None
        self._address = 0
        self._layout: Optional[Layout] = None

    def layout(self, end: float) -> Optional[Layout]:
        """None: there is no daemon that could see it. Waits until then, by time.monotonic()."""
        client = self._session.client
        if client is None:
            return None
        if self._layout is None:
            memory = client.create_memory(self.slots * self._page_bytes, timeout=_left_s(end))
            if not memory.ok:
                self._session.say_once(f"no buffer of {memory.bytes} bytes: {memory.status.name} "
                                       f"{memory.text}")
                return None
            self._memory = memory
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory.view))
            layout = client.register_layout(
                self.slots, [Run(memory, 0, self._page_bytes, self._page_bytes)],
                timeout=_left_s(end))
            if not layout.ok:
                return None
            self._layout = layout
        return self._layout

    def address(self, slot: int) -> int:
        return self._address + slot * self._page_bytes


# (buffer, its layout, first key, keys): None where nothing could be begun.
Begin = Callable[[Buffer, Layout, int, int], Optional[Op]]


class FlatPages:
    """The pages of one size of one pool. Any thread; one put and one get at a time."""

    def __init__(self, session: Session, engine: Engine, pool: str, page_bytes: int, *, tokens: int,
                 layout: str, dtype: str, replicated: bool) -> None:
        self._session = session
        self.page_bytes = page_bytes
        self.label = f"{pool} flat {page_bytes}"
        self.writes = engine.ranks.writes(replicated)
        self._buffers = [Buffer(session, page_bytes) for _ in range(2)]  # put, get
        session.attach(self.label, space_of(
            engine, pool, tokens=tokens, page_bytes=page_bytes, layout=f"flat, {layout}",
            dtype=dtype, replicated=replicated))

    @classmethod
    def of_pool(cls, session: Session, engine: Engine, name: str, pool: Any,
                replicated: bool) -> "FlatPages":
        """Of the flat pages that a host pool gives and takes."""
        sample = pool.get_dummy_flat_data_page()
        return cls.of_size(session, engine, name, pool, tensor_bytes(sample), replicated)

    @classmethod
    def of_size(cls, session: Session, engine: Engine, name: str, pool: Any, page_bytes: int,
                replicated: bool) -> "FlatPages":
        words = [str(getattr(pool, "layout", "")), type(pool).__name__,
                 str(getattr(pool, "storage_format_tag", None) or "")]
        return cls(session, engine, name, page_bytes, tokens=int(pool.page_size),
                   layout=", ".join(words), dtype=str(getattr(pool, "dtype", "")) or "?",
                   replicated=replicated)

    def put(self, keys: Keys, page: Callable[[int], Any], deadline_s: float,
            durable: bool = False) -> List[bool]:
        """page(i): a contiguous CPU tensor with the bytes of key i. Waits at most deadline_s."""
        end = time.monotonic() + deadline_s

        def begin(buffer: Buffer, layout: Layout, first: int, count: int) -> Optional[Op]:
            client, namespace = self._session.client, self._session.namespace(self.label)
            if client is None or namespace is None:
                return None
            for slot in range(count):
                tensor = page(first + slot)
                if tensor_bytes(tensor) != self.page_bytes:
                    return None
                ctypes.memmove(buffer.address(slot), tensor.data_ptr(), self.page_bytes)
            part = keys.part(first, first + count)
            return client.put(namespace, part.joined, layout, range(count),
                              key_bytes=part.key_bytes, durable=durable,
                              timeout=_left_s(end))

        return self._run(self._buffers[0], keys, end, begin, lambda *_: None, STORED)

    def get(self, keys: Keys, take: Callable[[int, int], None], deadline_s: float) -> List[bool]:
        """take(i, address): called with the bytes of key i, for those that are there, in order.
        Waits at most deadline_s, and for what is being copied."""
        end = time.monotonic() + deadline_s

        def begin(buffer: Buffer, layout: Layout, first: int, count: int) -> Optional[Op]:
            client, namespace = self._session.client, self._session.namespace(self.label)
            if client is None or namespace is None:
                return None
            part = keys.part(first, first + count)
            return client.get(namespace, part.joined, layout, range(count),
                              key_bytes=part.key_bytes, timeout=_left_s(end))

        return self._run(self._buffers[1], keys, end, begin, take, (Status.OK,))

    def _run(self, buffer: Buffer, keys: Keys, end: float, begin: Begin,
             done: Callable[[int, int], None], good: Sequence[Status]) -> List[bool]:
        found: List[bool] = []
        with buffer.lock:
            while len(found) < keys.length:
                layout = buffer.layout(end)
                first, count = len(found), min(buffer.slots, keys.length - len(found))
                op = None if layout is None else begin(buffer, layout, first, count)
                if op is None:
                    break
                result = op.result()
                if result.status == Status.STALE_NAMESPACE:
                    self._session.stale(self.label)
                items = result._items
                if len(items) != count:
                    items = bytes((result.status or Status.INTERNAL,)) * count
                for slot, status in enumerate(items):
                    if status in good:
                        done(first + slot, buffer.address(slot))
                    found.append(status in good)
                if result.status != Status.OK:
                    break
        return found + [False] * (keys.length - len(found))


def _left_s(end: float) -> float:
    return max(end - time.monotonic(), LEAST_S)


def tensor_bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def as_contiguous(tensor: Any) -> Any:
    return tensor if tensor.is_contiguous() else tensor.contiguous()
