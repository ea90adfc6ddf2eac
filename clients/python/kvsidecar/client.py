# SPDX-License-Identifier: Apache-2.0
"""The client: one connection to the node's daemon, over reconnects.

Calls that begin an operation return an Op at once and never raise for what the daemon or the
connection does: an Op that couldn't begin has finished already, with the reason as its status. A
wrong argument raises Misuse. All methods may be called from any thread; close() is the last call.
After a fork the child opens a client of its own.
"""
from __future__ import annotations

import ctypes
import logging
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

from . import _structs
from ._arguments import (Pool, Where, add_descriptions, coordinate_struct, fields_struct,
                         items_struct, keys_struct, layout_runs, lookup_struct)
from ._buffers import Keys, Numbers, PackedKeys, _flat, pack_keys
from ._core import Core, nanoseconds
from ._library import library
from .errors import Misuse, OpenFailed
from .identity import Coordinate, NamespaceFields
from .memory import Fence, Layout, Memory, Namespace, Region, Run, let_go_all
from .operation import Event, Op
from .status import EventKind, LogLevel, Stat, Status

COORDINATOR = 0xFFFF  # rank of a member without a part, e.g. vLLM's scheduler
EVENTS_AT_ONCE = 256
LEVELS = {LogLevel.INFO: logging.INFO, LogLevel.WARNING: logging.WARNING,
           LogLevel.ERROR: logging.ERROR}

LogFunction = Callable[[LogLevel, str], None]


class Connection(NamedTuple):
    connected: bool
    daemon_pid: int  # 0: not connected, or not visible
    connects: int  # grows with every connection made
    epoch: int
    session: int
    node: bytes  # the node's uuid


def _to_logging(level: LogLevel, text: str) -> None:
    logging.getLogger("kvsidecar").log(LEVELS.get(level, logging.ERROR), "%s", text)


def _microseconds_or_never(spin_s: Optional[float]) -> int:
    if spin_s == 0:
        return _structs.FOREVER_NS  # of the C ABI: never spin
    return nanoseconds(spin_s)


class Client:
    def __init__(self, socket: Optional[str] = None, *, name: Optional[str] = None,
                 connect_timeout: Optional[float] = None,
                 default_timeout: Optional[float] = None, spin: Optional[float] = None,
                 reconnect_min: Optional[float] = None, reconnect_max: Optional[float] = None,
                 staging_bytes: int = 0, operations_max: int = 0,
                 allow_disconnected: bool = False, reconnect: bool = True,
                 log: LogFunction = _to_logging) -> None:
        """socket None: $KVSIDECAR_SOCKET, else /run/kvsidecar/kvsidecar.sock. Times in seconds,
        None: the library's defaults (kvsidecar.h); spin 0: never spin. Raises OpenFailed when no
        daemon answers in connect_timeout, unless allow_disconnected. `log` is called from any
        thread and must not use the client."""
        found = library()
        callback = _structs.LOG_FUNCTION(
            lambda _, level, text: log(LogLevel(level), text.decode("utf-8", "replace")))
        options = _structs.sized(
            _structs.Options, socket_path=None if socket is None else socket.encode(),
            name=None if name is None else name.encode(),
            connect_timeout_ns=nanoseconds(connect_timeout),
            default_timeout_ns=nanoseconds(default_timeout), spin_ns=_microseconds_or_never(spin),
            reconnect_min_ns=nanoseconds(reconnect_min),
            reconnect_max_ns=nanoseconds(reconnect_max), staging_bytes=staging_bytes,
            operations_max=operations_max, allow_disconnected=int(allow_disconnected),
            no_reconnect=int(not reconnect), log=callback)
        pointer = ctypes.c_void_p()
        code = found.kvs_open(ctypes.byref(options), ctypes.byref(pointer))
        if code != Status.OK:
            raise OpenFailed(Status(code), found.kvs_last_error().decode("utf-8", "replace"))
        self._core = Core(found, pointer, (callback,))
        self._events = (_structs.Event * EVENTS_AT_ONCE)()

    def close(self, wait: Optional[float] = None) -> Status:
        """Ends the session. BufferError while a view of memory handed out is alive. OK: all blocks
        are the engine's. TIMEOUT: a get is still being copied (kvs_close says what follows)."""
        let_go_all(self._core)
        return self._core.close(nanoseconds(wait))[0]

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The connection.

    def fileno(self) -> int:
        """Polls readable when poll() has something to report; the same for the client's life. For
        select, selectors and asyncio's add_reader; never read from or closed by the caller."""
        return int(self._core.library.kvs_event_fd(self._core.c))

    @property
    def connected(self) -> bool:
        return bool(self._core.library.kvs_connected(self._core.c))

    @property
    def epoch(self) -> int:
        """Of the daemon of the latest connection; 0 before the first."""
        return int(self._core.library.kvs_epoch(self._core.c))

    def wait_connected(self, timeout: Optional[float] = None) -> bool:
        return bool(self._core.library.kvs_wait_connected(
            self._core.c, nanoseconds(timeout)) == Status.OK)

    def connection(self) -> Connection:
        raw = _structs.sized(_structs.Connection)
        self._core.library.kvs_connection_get(self._core.c, ctypes.byref(raw))
        return Connection(bool(raw.connected), raw.daemon_pid, raw.connects, raw.epoch,
                          raw.session, bytes(raw.node))

    # Memory, layouts, fences, namespaces. Registering waits for the daemon's answer.

    def create_memory(self, bytes_: int, timeout: Optional[float] = None) -> Memory:
        """Memory for an engine's blocks, shared with the daemon from birth."""
        raw = _structs.sized(_structs.Memory)
        made = self._core.make(self._core.library.kvs_memory_create, bytes_, nanoseconds(timeout),
                               ctypes.byref(raw))
        return Memory(self._core, made, raw)

    def register_fd(self, fd: int, bytes_: int, offset: int = 0, base: Optional[int] = None,
                    echo_offset: int = _structs.ECHO_AUTO,
                    timeout: Optional[float] = None) -> Region:
        """An engine's own file; `base`: where the engine has it mapped (None: the library maps it).
        echo_offset: 8 bytes of it that the engine never uses, or left to the library."""
        return Region(self._core, self._core.make(
            self._core.library.kvs_region_register_fd, fd, offset, bytes_, base, echo_offset,
            nanoseconds(timeout)), bytes_)

    def register_staged(self, buffer: Any, timeout: Optional[float] = None) -> Region:
        """A writable buffer that can't be shared: the library copies between it and a staging
        area. Kept alive by the region."""
        if memoryview(buffer).readonly:
            raise Misuse("buffer is read-only; gets write into it")
        flat = _flat(buffer, "buffer")
        return Region(self._core, self._core.make(
            self._core.library.kvs_region_register_staged, flat.address, flat.length,
            nanoseconds(timeout)), flat.length, (buffer, flat.owner))

    def register_layout(self, blocks: int, runs: Sequence[Run],
                        timeout: Optional[float] = None) -> Layout:
        """Blocks 0 .. blocks - 1, each made of the runs in this order."""
        if not runs:
            raise Misuse("runs is empty; a block has one run or more")
        made = self._core.make(self._core.library.kvs_layout_register, blocks, layout_runs(runs),
                               len(runs), nanoseconds(timeout))
        return Layout(self._core, made, blocks, runs)

    def create_fence(self) -> Fence:
        return Fence(self._core, self._core.make(self._core.library.kvs_fence_create))

    def attach(self, fields: NamespaceFields, *, group: Optional[bytes] = None,
               group_size: int = 0, rank: int = 0, coordinate: Optional[Coordinate] = None,
               description_bytes_max: int = 0, detach: bool = False,
               timeout: Optional[float] = None) -> Namespace:
        """Attaches to a namespace, as one rank of a group (16 bytes, one uuid for all ranks of an
        engine) or alone. coordinate: this session's part. detach: pages are shared within the
        group only. A field that is missing or out of range raises Misuse naming it."""
        if group is not None and len(group) != 16:
            raise Misuse(f"group has {len(group)} bytes; give the 16 of a uuid")
        struct, keep = fields_struct(fields)
        args = _structs.sized(
            _structs.AttachArgs, fields=ctypes.pointer(struct),
            group=None if group is None else bytes(group), group_size=group_size, rank=rank,
            coordinate=coordinate_struct(coordinate),
            description_bytes_max=description_bytes_max, detach=int(detach),
            timeout_ns=nanoseconds(timeout))
        made = self._core.make(self._core.library.kvs_attach, ctypes.byref(args))
        del keep
        return Namespace(self._core, made)

    # Operations.

    def _begin(self, keep: Any, count: int, function: Any, *arguments: Any) -> Op:
        self._core.free_orphans()
        op, status, text = self._core.make(function, *arguments)
        if status != Status.OK:
            return Op.not_begun(self._core, status, text, count)
        return Op(self._core, op, keep, count)

    def lookup(self, keys: Keys, pools: Union[Namespace, Sequence[Union[Namespace, Pool]]], *,
               key_bytes: Optional[int] = None, ticket: int = 0, lease: float = 0,
               prefetch: bool = False, timeout: Optional[float] = None) -> Op:
        """Which prefixes of a prompt are restorable. keys: in order, one contiguous buffer with
        key_bytes, a two-dimensional array (a row a key), or a sequence of bytes. ticket: all ranks
        of a group that pass the same get one answer. lease: hold the pages so many seconds."""
        packed = pack_keys(keys, key_bytes)
        args, keep = lookup_struct(packed, pools, ticket, lease, prefetch, nanoseconds(timeout))
        op = self._begin(None, packed.length, self._core.library.kvs_lookup, ctypes.byref(args))
        del keep
        return op

    def put(self, namespace: Namespace, keys: Keys, where: Where,
            blocks: Optional[Numbers] = None, *, key_bytes: Optional[int] = None,
            coordinate: Optional[Coordinate] = None, durable: bool = False,
            fence: Optional[Fence] = None, fence_value: int = 0, position: int = 0,
            prompt_pages: int = 0, descriptions: Optional[Sequence[bytes]] = None,
            timeout: Optional[float] = None) -> Op:
        """Stores pages from an engine's blocks. blocks: one number of the layout a key. The blocks
        may not be written until the Op has finished. durable: OK only when the store has the page.
        position, prompt_pages: where in its prompt the first key lies, a hint."""
        packed = pack_keys(keys, key_bytes)
        args, keep = self._transfer(namespace, packed, where, blocks, coordinate, fence,
                                    fence_value, timeout)
        args.durable, args.position, args.prompt_pages = int(durable), position, prompt_pages
        blobs = add_descriptions(args, descriptions, packed.length) if descriptions else None
        op = self._begin(keep, packed.length, self._core.library.kvs_put, ctypes.byref(args))
        del blobs
        return op

    def get(self, namespace: Namespace, keys: Keys, where: Where,
            blocks: Optional[Numbers] = None, *, key_bytes: Optional[int] = None,
            coordinate: Optional[Coordinate] = None, fence: Optional[Fence] = None,
            fence_value: int = 0, lease: int = 0, layered: bool = False,
            timeout: Optional[float] = None) -> Op:
        """Loads pages into an engine's blocks: exactly the stored bytes, or a status that is not
        OK. The blocks are the daemon's until the Op has finished. layered: Op.progress will be
        asked."""
        packed = pack_keys(keys, key_bytes)
        args, keep = self._transfer(namespace, packed, where, blocks, coordinate, fence,
                                    fence_value, timeout)
        args.lease, args.layered = lease, int(layered)
        return self._begin(keep, packed.length, self._core.library.kvs_get, ctypes.byref(args))

    def _transfer(self, namespace: Namespace, packed: PackedKeys, where: Where,
                  blocks: Optional[Numbers], coordinate: Optional[Coordinate],
                  fence: Optional[Fence], fence_value: int, timeout: Optional[float]) -> Any:
        items, keep = items_struct(where, blocks, packed.length)
        args = _structs.sized(
            _structs.TransferArgs, ns=namespace.id, keys=keys_struct(packed), items=items,
            fence=0 if fence is None else fence.id, fence_value=fence_value,
            timeout_ns=nanoseconds(timeout))
        if coordinate is not None:
            args.has_coordinate, args.coordinate = 1, coordinate_struct(coordinate)
        return args, (keep, fence)

    def release(self, lease: int, timeout: Optional[float] = None) -> Op:
        """Ends a lease early."""
        return self._begin(None, 0, self._core.library.kvs_release, lease, nanoseconds(timeout))

    def delete(self, namespace: Namespace, keys: Keys, *, key_bytes: Optional[int] = None,
               timeout: Optional[float] = None) -> Op:
        """Removes pages; one status an item."""
        packed = pack_keys(keys, key_bytes)
        return self._begin(None, packed.length, self._core.library.kvs_delete, namespace.id,
                           ctypes.byref(keys_struct(packed)), nanoseconds(timeout))

    def clear(self, namespace: Union[Namespace, bytes], timeout: Optional[float] = None) -> Op:
        """Starts a new generation of a namespace: this client's, or for administrators any, by its
        16-byte id. No page of before is found again."""
        if isinstance(namespace, Namespace):
            return self._begin(None, 0, self._core.library.kvs_clear, namespace.id,
                               nanoseconds(timeout))
        if len(namespace) != 16:
            raise Misuse(f"a namespace's id has 16 bytes, not {len(namespace)}")
        return self._begin(None, 0, self._core.library.kvs_clear_id, bytes(namespace),
                           nanoseconds(timeout))

    def stat(self, what: Stat = Stat.STATUS, timeout: Optional[float] = None) -> Op:
        """The daemon's own account: Op.result().json()."""
        return self._begin(None, 0, self._core.library.kvs_stat, what, nanoseconds(timeout))

    def why(self, key: bytes, namespace_id: Optional[bytes] = None,
            timeout: Optional[float] = None) -> Op:
        """What the daemon knows of one key: Op.result().json(). namespace_id None: in all."""
        if namespace_id is not None and len(namespace_id) != 16:
            raise Misuse(f"a namespace's id has 16 bytes, not {len(namespace_id)}")
        return self._begin(None, 0, self._core.library.kvs_why, namespace_id, bytes(key), len(key),
                           nanoseconds(timeout))

    # What became of them.

    def poll(self) -> List[Event]:
        """Takes answers in: what has finished or become overdue since, each reported once, without
        those that were waited for or have been dropped. Never blocks."""
        self._core.free_orphans()
        events: List[Event] = []
        while True:
            count = self._core.library.kvs_poll(self._core.c, self._events, EVENTS_AT_ONCE)
            for event in self._events[:count]:
                op = self._core.ops.get(event.op)
                if op is not None:
                    events.append(Event(op, EventKind(event.kind)))
            if count < EVENTS_AT_ONCE:
                return events

    def wait_all(self, ops: Sequence[Op], timeout: Optional[float] = None) -> bool:
        """Op.wait for all of them."""
        for op in ops:
            if timeout is None:
                op.wait()
        ids = [op.id for op in ops if not op.finished]
        if ids:
            self._core.library.kvs_wait_all(self._core.c, (ctypes.c_uint64 * len(ids))(*ids),
                                            len(ids), max(nanoseconds(timeout), 1))
        return all([op.finished for op in ops])
