# SPDX-License-Identifier: Apache-2.0
"""What all objects of one client share: the library, the C client, and what outlives its object."""
from __future__ import annotations

import atexit
import ctypes
import threading
import weakref
from typing import Any, List, Optional, Tuple

from . import _structs
from .errors import Misuse
from .status import Status


def nanoseconds(seconds: Optional[float]) -> int:
    """0 is the client's default."""
    if seconds is None:
        return 0
    if not seconds >= 0:
        raise Misuse(f"a time is {seconds!r} s; give 0 or more")
    return min(int(seconds * 1e9), _structs.FOREVER_NS)


_open: "weakref.WeakSet[Core]" = weakref.WeakSet()


class Core:
    """Lives as long as anything of its client does: also a view of memory that it handed out."""

    def __init__(self, library: ctypes.CDLL, pointer: ctypes.c_void_p, keep: Tuple[Any, ...]):
        self.library = library
        self.pointer: Optional[ctypes.c_void_p] = pointer
        self.keep = keep  # callbacks that C still knows
        self.ops: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
        # By address: memory that somebody can see.
        self.mapped: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
        self.memories: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._orphans: List[Tuple[int, Any]] = []
        self._lock = threading.Lock()
        _open.add(self)

    @property
    def c(self) -> ctypes.c_void_p:
        if self.pointer is None:
            raise Misuse("the client is closed")
        return self.pointer

    def last_error(self) -> str:
        text: bytes = self.library.kvs_last_error()
        return text.decode("utf-8", "replace")

    def outcome(self, code: int) -> Tuple[Status, str]:
        return Status(code), "" if code == Status.OK else self.last_error()

    def make(self, function: Any, *arguments: Any) -> Tuple[int, Status, str]:
        """Calls a function that ends in an id: (id, status, sentence)."""
        made = ctypes.c_uint64()
        status, text = self.outcome(function(self.c, *arguments, ctypes.byref(made)))
        return made.value, status, text

    def free_op(self, op: int, keep: Any) -> None:
        """Frees an operation nobody holds any more. A get that is being copied stays, with the
        memory it writes, until it has settled."""
        if self.pointer is not None and \
                self.library.kvs_op_free(self.pointer, op) == Status.BUSY:
            with self._lock:
                self._orphans.append((op, keep))

    def free_orphans(self) -> None:
        if not self._orphans:
            return
        with self._lock:
            orphans, self._orphans = self._orphans, []
        for op, keep in orphans:
            self.free_op(op, keep)

    def close(self, wait_ns: int = 0) -> Tuple[Status, str]:
        pointer, self.pointer = self.pointer, None
        if pointer is None:
            return Status.OK, ""
        closed = self.outcome(self.library.kvs_close(pointer, wait_ns))
        self._orphans.clear()
        _open.discard(self)
        return closed

    def __del__(self) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    # The keeper's thread must not call the log function of an interpreter that has ended.
    for core in list(_open):
        core.close()


class Handle:
    """Something that the daemon knows: an id, and how its registration went. `status` UNAVAILABLE:
    no daemon at the moment, it is registered when there is one, and may be used meanwhile. Any
    other failure: refused, `ok` is False and its use is a Misuse."""

    def __init__(self, core: Core, made: Tuple[int, Status, str]) -> None:
        self._core = core
        self._id, self.status, self.text = made

    @property
    def ok(self) -> bool:
        return self._id != 0

    @property
    def id(self) -> int:
        if self._id == 0:
            kind = type(self).__name__.lower()
            raise Misuse(f"the {kind} can't be used: {self.status.name} {self.text}".rstrip())
        return self._id
