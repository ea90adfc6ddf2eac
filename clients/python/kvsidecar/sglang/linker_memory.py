# SPDX-License-Identifier: Apache-2.0
"""The device pools' memory: how the daemon gets to see it, and what a copy has to wait for. One
class per kind of device."""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import logging
import os
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from .. import Client, Fence, Region
from ..errors import Misuse

logger = logging.getLogger("sglang.kvsidecar")

SHARED_MEMORY = "/dev/shm"  # where torch's shared storages lie
POINTER_TABLES = "data_ptrs"  # how SGLang's pools call tensors of their buffers' addresses


class Device:
    """What the linker asks of a device."""

    def share(self, tensors: Dict[str, List[Any]]) -> List[Tuple[int, int, int]]:
        """Before any address is used: brings the storages under the tensors into a form that can be
        shared. Views follow; what has moved is returned as (address before, bytes, address now)."""
        raise NotImplementedError

    def register(self, client: Client, storages: Dict[int, Any],
                 timeout_s: float) -> Dict[int, Region]:
        """Registers each storage (by its address); a storage's first byte is its region's. Blocks
        at most timeout_s each, at start only; without a daemon the client registers by itself
        later. A region that the daemon refused is not ok."""
        raise NotImplementedError

    def computed(self) -> Tuple[Optional[Fence], int]:
        """(fence, value) that is reached when all work that the engine has queued so far is done:
        no load may begin earlier. (None, 0): it is done already."""
        raise NotImplementedError

    def offload_ready(self, linker: Any) -> Tuple[Optional[Fence], int]:
        """The same for reading pages: what linker.record_offload_ready()'s events say."""
        raise NotImplementedError


class HostDevice(Device):
    """CPU: the forward has ended when it returns, so nothing has to be waited for."""

    def __init__(self) -> None:
        self._shared: Dict[int, int] = {}  # by address: torch's own fd
        self._complained = False

    def share(self, tensors: Dict[str, List[Any]]) -> List[Tuple[int, int, int]]:
        with alone_in(SHARED_MEMORY):
            return self._share(tensors)

    def _share(self, tensors: Dict[str, List[Any]]) -> List[Tuple[int, int, int]]:
        moved = []
        for storage in storages_of(buffer for buffers in tensors.values() for buffer in buffers):
            before, size = storage.data_ptr(), storage.nbytes()
            try:
                if size > self._room():  # torch would be killed by SIGBUS
                    raise OSError(f"{SHARED_MEMORY} has less")
                # Swaps the storage in place: every view of it follows, the address changes.
                fd = storage._share_fd_cpu_()[0]
            except (RuntimeError, OSError) as error:
                self._complain(f"torch can't share {size} bytes of the KV cache ({error}); they go "
                               "through a staging area, with a copy more. Give this process a "
                               f"larger {SHARED_MEMORY}")
                continue
            self._shared[storage.data_ptr()] = fd
            moved.append((before, size, storage.data_ptr()))
        return moved

    @staticmethod
    def _room() -> int:
        found = os.statvfs(SHARED_MEMORY)
        return found.f_bavail * found.f_frsize

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("kvsidecar: %s (said once)", text)

    def register(self, client: Client, storages: Dict[int, Any],
                 timeout_s: float) -> Dict[int, Region]:
        regions: Dict[int, Region] = {}
        for address, storage in storages.items():
            fd = self._shared.get(address)
            if fd is None:
                regions[address] = client.register_staged(_bytes_of(storage), timeout=timeout_s)
            else:
                regions[address] = client.register_fd(fd, storage.nbytes(), base=address,
                                                      timeout=timeout_s)
        return regions

    def computed(self) -> Tuple[Optional[Fence], int]:
        return None, 0

    def offload_ready(self, linker: Any) -> Tuple[Optional[Fence], int]:
        return None, 0


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Other ranks' linkers wait meanwhile: the room that one sees there is taken only while it
    copies, and whoever then finds none is killed."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _bytes_of(storage: Any) -> Any:
    """A storage as a writable buffer, without a copy."""
    view = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    view.storage = storage
    return view


def storages_of(tensors: Iterable[Any]) -> List[Any]:
    """The storages under the tensors, each once."""
    found: Dict[int, Any] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found.setdefault(storage.data_ptr(), storage)
    return list(found.values())


def follow(pool: Any, moved: List[Tuple[int, int, int]]) -> None:
    """Corrects the tables of addresses that a pool of SGLang's keeps, or each of several pools."""
    if isinstance(pool, (list, tuple)):
        for one in pool:
            follow(one, moved)
        return
    for name, table in list(getattr(pool, "__dict__", {}).items()):
        if not name.endswith(POINTER_TABLES) or not hasattr(table, "tolist"):
            continue
        addresses = [_moved(address, moved) for address in table.tolist()]
        table.copy_(table.new_tensor(addresses))


def _moved(address: int, moved: List[Tuple[int, int, int]]) -> int:
    for before, size, now in moved:
        if before <= address < before + size:
            return now + address - before
    return address


def device_for(tensors: Dict[str, List[Any]]) -> Device:
    """Of the device that these tensors lie on. Misuse where there is none for it."""
    kinds = {str(buffer.device.type) for buffers in tensors.values() for buffer in buffers}
    if kinds != {"cpu"}:
        raise Misuse(f"the KV cache lies on {' and '.join(sorted(kinds))}; this release of the "
                     "linker serves engines with --device cpu")
    return HostDevice()
