# SPDX-License-Identifier: Apache-2.0
"""Lookups of one kind, again and again: what is the same in all of them is packed once. A third of
Client.lookup's time, for threads in which every microsecond counts, e.g. an engine's scheduler."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, Union

from . import _structs
from ._arguments import Pool, lookup_struct
from ._buffers import as_array, as_bits, copied_bytes, pack_keys
from ._core import Core, nanoseconds
from .client import Client
from .memory import Namespace
from .status import Status

KEYS_MAX, FINDS_MAX = 32768, 65536  # of kvs_lookup: keys, and keys times pools
_BUSY = int(Status.BUSY)  # an int is compared sooner than an enum's member


class Found:
    """What became of one lookup. `finished` first: the rest is there when it is true."""

    __slots__ = ("_prepared", "_id", "_keys", "status", "text", "longest", "lease", "places_bytes",
                 "_restorable", "submitted_ns", "finished_ns")

    status: Status  # OK, or why there is no answer
    text: str
    longest: int  # pages of the longest restorable prefix
    lease: int  # 0: none
    places_bytes: bytes  # a Place a key
    submitted_ns: int
    finished_ns: int

    def __init__(self, prepared: "PreparedLookup", id_: int, keys: int, status: Status, text: str):
        self._prepared, self._id, self._keys = prepared, id_, keys
        self.status, self.text = status, text
        self.longest = self.lease = self.submitted_ns = self.finished_ns = 0
        self.places_bytes = self._restorable = b""

    @property
    def finished(self) -> bool:
        """Takes answers in; never blocks."""
        return self._id == 0 or self._prepared.take(self)

    def wait(self, nanoseconds_: int) -> None:
        """Sleeps until it has finished, at most so long; the GIL is free meanwhile."""
        if self._id:
            self._prepared.wait(self._id, nanoseconds_)

    @property
    def places(self) -> Any:
        return as_array(self.places_bytes)

    @property
    def restorable(self) -> Any:
        """[i] true: the prefix of i + 1 pages is restorable."""
        return as_bits(self._restorable, len(self.places_bytes))

    def __del__(self) -> None:
        if getattr(self, "_id", 0):
            self._prepared.forget(self._id)


class PreparedLookup:
    """One thread at a time, unlike a Client."""

    def __init__(self, client: Client, pools: Union[Namespace, Sequence[Union[Namespace, Pool]]],
                 *, lease: float = 0, prefetch: bool = False,
                 timeout: Optional[float] = None) -> None:
        """As of Client.lookup; seconds."""
        self._core: Core = client._core
        self._args, self._keep = lookup_struct(pack_keys(b"\0", 1), pools, 0, lease, prefetch,
                                               nanoseconds(timeout))
        self.keys_max = min(KEYS_MAX, FINDS_MAX // self._args.pool_count)  # of one begin()
        self._made, self._result = ctypes.c_uint64(), _structs.sized(_structs.Result)
        self._args_at, self._made_at = ctypes.byref(self._args), ctypes.byref(self._made)
        self._result_at = ctypes.byref(self._result)
        self._asked = _structs.BytesKeys.from_buffer(self._args, _structs.LookupArgs.keys.offset)

    def begin(self, keys: bytes, key_bytes: int) -> Found:
        """keys: end to end, in order."""
        asked, core, count = self._asked, self._core, len(keys) // key_bytes
        asked.bytes, asked.key_bytes, asked.count = keys, key_bytes, count
        code = core.library.kvs_lookup(core.pointer or core.c, self._args_at, self._made_at)
        if code != 0:
            return Found(self, 0, count, Status(code), core.last_error())
        return Found(self, self._made.value, count, Status.OK, "")

    def take(self, found: Found) -> bool:
        """Of Found.finished."""
        core, raw = self._core, self._result
        if core.pointer is None:
            found.status, found.text, found._id = Status.UNAVAILABLE, "the client is closed", 0
            return True
        code = core.library.kvs_result_get(core.pointer, found._id, self._result_at)
        if code == _BUSY:
            return False
        if code != 0:
            found.status, found.text = Status(code), core.last_error()
        else:
            found.status = Status.OK if raw.status == 0 else Status(raw.status)
            if raw.status:
                found.text = copied_bytes(raw.text, raw.text_bytes).decode("utf-8", "replace")
            found.longest, found.lease = raw.longest, raw.lease
            found.places_bytes = copied_bytes(raw.places, raw.item_count)
            found._restorable = copied_bytes(raw.restorable, raw.restorable_bytes)
            found.submitted_ns, found.finished_ns = raw.submitted_ns, raw.finished_ns
        core.library.kvs_op_free(core.pointer, found._id)
        found._id = 0
        return True

    def wait(self, op: int, nanoseconds_: int) -> None:
        """Of Found.wait."""
        core = self._core
        if core.pointer is not None:
            core.library.kvs_wait(core.pointer, op, max(nanoseconds_, 1))

    def forget(self, op: int) -> None:
        """One that nobody holds any more is cancelled."""
        self._core.free_op(op, None)
