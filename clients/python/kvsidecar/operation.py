# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, like futures, and their results."""
from __future__ import annotations

import ctypes
import json
import threading
import time
from functools import cached_property
from typing import Any, NamedTuple, Optional

from . import _structs
from ._buffers import Numbers, as_array, as_bits, copied_bytes, pack_numbers
from ._core import Core, nanoseconds
from .status import EventKind, Status

# Waits are cut into pieces of this length so that a signal (Ctrl-C) is seen between them.
WAIT_PIECE_NS = 200_000_000


class Result:
    """What became of an operation. Arrays are numpy uint8 (memoryviews without numpy), copies."""

    status: Status  # OK also when single items missed; else the reason for all of them
    text: str  # stat, why: JSON; with a failure: one sentence
    longest: int  # lookup: pages of the longest restorable prefix
    lease: int  # lookup: 0 when none was asked for or given
    lease_capped: bool  # lookup: a lease was asked for and not given
    generation: int  # clear: of the namespace from now on
    submitted_ns: int  # CLOCK_MONOTONIC
    finished_ns: int
    served_ns: int  # inside the daemon, of the slowest record

    # Bytes become arrays when somebody asks: an engine looks at few of the arrays of a result.
    _items: bytes
    _places: bytes
    _restorable: bytes

    @cached_property
    def items(self) -> Any:
        """put, get, delete: a Status for each item."""
        return as_array(self._items)

    @cached_property
    def places(self) -> Any:
        """lookup: a Place for each key."""
        return as_array(self._places)

    @cached_property
    def restorable(self) -> Any:
        """lookup: [i] true: the prefix of i + 1 pages is restorable."""
        return as_bits(self._restorable, len(self._places))

    @property
    def ok(self) -> bool:
        """The operation was served. Of a put, get or delete each item has its own status: a get of
        pages that aren't there is ok too, and their blocks are as they were. See all_ok."""
        return self.status == Status.OK

    @property
    def all_ok(self) -> bool:
        """Served, and so was every item."""
        return self.ok and self.succeeded == len(self._items)

    @property
    def succeeded(self) -> int:
        """Items whose status is OK, OK_PART or EXISTS."""
        return sum(map(self._items.count, range(Status.EXISTS + 1)))

    def json(self) -> Any:
        """The answer of stat or why; None after a failure."""
        return json.loads(self.text) if self.ok and self.text else None

    def __repr__(self) -> str:
        names = ("status", "text", "items", "places", "restorable", "longest", "lease",
                 "lease_capped", "generation", "submitted_ns", "finished_ns", "served_ns")
        return f"Result({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _read(raw: _structs.Result) -> Result:
    result = Result()
    result.status = Status.OK if raw.status == 0 else Status(raw.status)
    result.text = ctypes.string_at(raw.text, raw.text_bytes).decode("utf-8", "replace") \
        if raw.text_bytes else ""
    result._items = copied_bytes(raw.items, raw.item_count)
    result._places = copied_bytes(raw.places, raw.item_count)
    result._restorable = copied_bytes(raw.restorable, raw.restorable_bytes)
    result.longest, result.lease, result.generation = raw.longest, raw.lease, raw.generation
    result.lease_capped = bool(raw.flags & 1)
    result.submitted_ns, result.finished_ns = raw.submitted_ns, raw.finished_ns
    result.served_ns = raw.served_ns
    return result


def _failed(status: Status, text: str, count: int) -> Result:
    result = Result()
    result.status, result.text = status, text
    result._items, result._places, result._restorable = bytes((status,)) * count, b"", b""
    result.longest = result.lease = result.generation = result.served_ns = 0
    result.lease_capped = False
    result.submitted_ns = result.finished_ns = time.monotonic_ns()
    return result


class Op:
    """One operation. An Op that is dropped before its end is cancelled; what a get is writing at
    that moment is kept until it has settled. Any thread, one at a time."""

    def __init__(self, core: Core, id_: int, keep: Any, count: int) -> None:
        self._core = core
        self.id = id_
        self._keep = keep  # layouts, fences: alive until nothing can be written any more
        self._count = count
        self._result: Optional[Result] = None
        core.ops[id_] = self

    @classmethod
    def not_begun(cls, core: Core, status: Status, text: str, count: int) -> "Op":
        """One that finished at its call: no daemon, too many operations, a cleared namespace, …"""
        op = cls.__new__(cls)
        op._core, op.id, op._keep, op._count = core, 0, None, count
        op._result = _failed(status, text, count)
        return op

    def _take(self) -> bool:
        """Takes the result if it is there, and gives the operation back to the library."""
        if self._result is None:
            raw = _structs.sized(_structs.Result)
            code = self._core.library.kvs_result_get(self._core.c, self.id, ctypes.byref(raw))
            if code == Status.BUSY:
                return False
            self._result = _read(raw) if code == Status.OK else \
                _failed(Status(code), self._core.last_error(), self._count)
            self._core.free_op(self.id, None)
            self._keep = None
        return True

    @property
    def finished(self) -> bool:
        """Takes answers in; never blocks."""
        return self._take()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Blocks until it has finished, at most `timeout` seconds; None: until its own deadline
        and, for a get, its settling. The GIL is free meanwhile. False: it goes on."""
        if self._result is not None:
            return True
        # 0 would be the client's default in the C ABI.
        left = _structs.FOREVER_NS if timeout is None else max(nanoseconds(timeout), 1)
        library, c = self._core.library, self._core.c
        signals = threading.current_thread() is threading.main_thread()
        while True:
            piece = min(left, WAIT_PIECE_NS) if signals else left
            if library.kvs_wait(c, self.id, piece) != Status.TIMEOUT:
                return self._take()
            if timeout is not None:
                left -= piece
            if left <= 0 or not signals:
                return self._take()

    def result(self) -> Result:
        """Waits for the end and gives the result."""
        self.wait()
        assert self._result is not None
        return self._result

    def cancel(self) -> Any:
        """Gives it up. For each item 1: its block is the engine's from now on; 0: a get that is
        being copied settles first. Never blocks."""
        free = (ctypes.c_uint8 * max(self._count, 1))()
        if self._result is not None:
            return as_array(b"\x01" * self._count)
        self._core.library.kvs_cancel(self._core.c, self.id, free if self._count else None)
        return as_array(bytes(free)[:self._count])

    def revoke(self, indices: Numbers) -> Any:
        """cancel() for single items of a put or get, by their index into its keys."""
        wanted = pack_numbers(indices, 4, "indices")
        if self._result is not None:
            return as_array(b"\x01" * wanted.length)
        free = (ctypes.c_uint8 * max(wanted.length, 1))()
        self._core.library.kvs_revoke(self._core.c, self.id, wanted.address, wanted.length, free)
        return as_array(bytes(free)[:wanted.length])

    @property
    def progress(self) -> int:
        """Runs of each block that are in place, of a layered get; 2**64 - 1: all of them."""
        if self._result is not None:
            done = self._result.ok and self._result.succeeded == self._count
            return _structs.FOREVER_NS if done else 0
        runs = ctypes.c_uint64()
        self._core.library.kvs_progress(self._core.c, self.id, ctypes.byref(runs))
        return runs.value

    def __del__(self) -> None:
        if getattr(self, "_result", self) is None and self._core.pointer is not None:
            self._core.free_op(self.id, self._keep)


class Event(NamedTuple):
    op: Op
    kind: EventKind
