# SPDX-License-Identifier: Apache-2.0
"""Memory that the daemon copies from and to, block layouts over it, and fences."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple, Union

from . import _structs
from ._buffers import np
from ._core import Core, Handle, nanoseconds
from .errors import Misuse
from .status import Status


def _unregister(core: Core, region: int) -> None:
    if core.pointer is not None:
        core.library.kvs_region_unregister(core.pointer, region, 0)


class Region(Handle):
    """Registered memory. It is unregistered when nothing refers to it any more, layouts and
    operations included."""

    def __init__(self, core: Core, made: Tuple[int, Status, str], bytes_: int, owner: Any = None):
        super().__init__(core, made)
        self.bytes = bytes_
        self._owner = owner  # an engine's own memory, kept alive
        if self.ok:
            self._finalizer = weakref.finalize(self, _unregister, core, self._id)
            self._finalizer.atexit = False

    def release(self, timeout: Optional[float] = None) -> Status:
        """Unregisters and waits until the daemon has unmapped it. OK or UNAVAILABLE: the memory may
        be freed. TIMEOUT: call again. BUSY: an operation or layout still uses it."""
        status = Status(self._core.library.kvs_region_unregister(
            self._core.c, self.id, nanoseconds(timeout)))
        if status in (Status.OK, Status.UNAVAILABLE):
            self._finalizer.detach()
            self._id, self._owner, self.text = 0, None, "released"
        return status


class Memory(Handle):
    """Memory handed out by the library: page aligned, zeroed, shared from birth. `view` and
    `array` look into it; it lives as long as any of them does."""

    def __init__(self, core: Core, made: Tuple[int, Status, str], memory: _structs.Memory) -> None:
        super().__init__(core, made)
        self.bytes = int(memory.bytes)
        self.fd = int(memory.fd)
        self._base = int(memory.base or 0)
        self._bytes: Any = None
        if self.ok:
            self._hold((ctypes.c_ubyte * self.bytes).from_address(self._base))
            core.memories.add(self)

    def _hold(self, mapped: Any) -> None:
        # Every view holds `mapped`; when the last of them has gone, the memory may go.
        mapped.keeps_client_alive = self._core
        self._bytes = mapped
        self._core.mapped[self._base] = mapped
        self._finalizer = weakref.finalize(mapped, _unregister, self._core, self._id)
        self._finalizer.atexit = False

    def _usable(self) -> int:
        """Its id. Misuse for one that was refused or released, or whose client is closed: it has no
        bytes."""
        self._core.c
        return self.id

    def let_go(self) -> "Callable[[], Any]":
        """Drops its own hold; what is returned gives the memory while a view of it is alive."""
        self._finalizer.detach()
        seen = weakref.ref(self._bytes)
        self._bytes = None
        return seen

    @property
    def view(self) -> memoryview:
        """All of it as writable bytes, without a copy."""
        self._usable()
        return memoryview(self._bytes).cast("B")

    def __buffer__(self, flags: int) -> memoryview:
        return self.view

    def __len__(self) -> int:
        return self.bytes

    def array(self, dtype: Any = "u1", shape: Union[int, Sequence[int], None] = None,
              offset: int = 0) -> Any:
        """A writable numpy array over it, without a copy; `offset` in bytes."""
        if np is None:
            raise Misuse("Memory.array needs numpy; use Memory.view")
        self._usable()
        count = -1 if shape is None else int(np.prod(shape))
        flat = np.frombuffer(self._bytes, dtype=dtype, count=count, offset=offset)
        return flat if shape is None else flat.reshape(shape)

    def release(self, timeout: Optional[float] = None) -> Status:
        """Unregisters and unmaps. BufferError while a view or an array of it is alive. Results as
        Region.release."""
        region = self._usable()
        mapped = self.let_go()()
        if mapped is not None:
            self._hold(mapped)
            raise BufferError("a view or an array of this memory is still alive")
        status = Status(self._core.library.kvs_region_unregister(
            self._core.c, region, nanoseconds(timeout)))
        if status in (Status.OK, Status.UNAVAILABLE):
            self._id, self.text = 0, "released"
        else:  # the daemon or a layout still has it, and so the mapping is there
            self._hold((ctypes.c_ubyte * self.bytes).from_address(self._base))
        return status


def let_go_all(core: Core) -> None:
    """Before a client's close: BufferError while a view of its memory is alive."""
    if core.pointer is None:  # closed before, and all of it gone with that
        return
    held = [(memory, memory.let_go()) for memory in list(core.memories) if memory.ok]
    if not core.mapped:
        return
    for memory, mapped in held:
        again = mapped()
        memory._hold((ctypes.c_ubyte * memory.bytes).from_address(memory._base)
                     if again is None else again)
    raise BufferError("a view or an array of the client's memory is still alive")


AnyMemory = Union[Memory, Region]


class Run(NamedTuple):
    """One piece of a block: at `base + block * block_stride` of a region."""

    region: AnyMemory
    base: int
    block_stride: int
    length: int


def _drop_layout(core: Core, layout: int) -> None:
    if core.pointer is not None:
        core.library.kvs_layout_unregister(core.pointer, layout, 0)


class Layout(Handle):
    """How a block number becomes memory. Keeps its memory alive."""

    def __init__(self, core: Core, made: Tuple[int, Status, str], blocks: int,
                 runs: Sequence[Run]) -> None:
        super().__init__(core, made)
        self.blocks = blocks
        self.part_bytes = sum(run.length for run in runs)
        self._memory = tuple(run.region for run in runs)
        if self.ok:
            self._finalizer = weakref.finalize(self, _drop_layout, core, self._id)
            self._finalizer.atexit = False

    def release(self, timeout: Optional[float] = None) -> Status:
        """As Region.release."""
        status = Status(self._core.library.kvs_layout_unregister(
            self._core.c, self.id, nanoseconds(timeout)))
        if status in (Status.OK, Status.UNAVAILABLE):
            self._finalizer.detach()
            self._id, self._memory, self.text = 0, (), "released"
        return status


def _destroy_fence(core: Core, fence: int) -> None:
    if core.pointer is not None:
        core.library.kvs_fence_destroy(core.pointer, fence)


class Fence(Handle):
    """A word that only grows; a copy that names (fence, value) waits until it is that large."""

    def __init__(self, core: Core, made: Tuple[int, Status, str]) -> None:
        super().__init__(core, made)
        if self.ok:
            weakref.finalize(self, _destroy_fence, core, self._id).atexit = False

    def signal(self, value: int) -> Status:
        """Raises the word after all earlier writes of this thread. Never blocks."""
        return Status(self._core.library.kvs_fence_signal(self._core.c, self.id, value))


class Namespace(Handle):
    """An attachment. STALE_NAMESPACE of its operations: somebody else has cleared it; clear it or
    attach anew."""

    def _facts(self) -> Tuple[bytes, int]:
        raw, generation = ctypes.create_string_buffer(16), ctypes.c_uint64()
        self._core.library.kvs_namespace_get(self._core.c, self.id, raw, ctypes.byref(generation))
        return raw.raw, generation.value

    @property
    def namespace_id(self) -> bytes:
        """The 128-bit id, 16 bytes as stored."""
        return self._facts()[0]

    @property
    def generation(self) -> int:
        """0 while unknown."""
        return self._facts()[1]

    def detach(self) -> None:
        """Forgets it: it isn't attached again after a reconnect."""
        self._core.library.kvs_detach(self._core.c, self.id)
        self._id, self.text = 0, "detached"
