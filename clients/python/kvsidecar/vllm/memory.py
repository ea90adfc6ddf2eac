# SPDX-License-Identifier: Apache-2.0
"""The KV cache's memory: how the daemon gets to see it, and what a copy has to wait for.

One class per kind of device. HostDevice is the one for engines that compute on CPUs: their KV cache
is a memfd. It is also the twin by which the rest of the connector is tested: a device whose streams
are empty whenever somebody looks.
"""
from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from contextlib import AbstractContextManager
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .. import Client, Fence, Region
from ..errors import Misuse

AREA_BYTES_MIN = 1 << 16  # smaller allocations inside the KV cache's context are none of it


class Area(NamedTuple):
    """A memfd that holds (part of) the KV cache, mapped for the life of the process."""

    fd: int
    bytes: int
    mapping: mmap.mmap
    address: int


class Device:
    """What the connector asks of a device. Made before the KV cache is allocated."""

    def pool_context(self) -> Optional[AbstractContextManager[Any]]:
        """In which vLLM allocates the KV cache so that it can be shared; None: as it would."""
        raise NotImplementedError

    def register(self, client: Client, storages: Dict[int, Any],
                 timeout_s: float) -> Dict[int, Region]:
        """Registers each storage (by its address); a storage's first byte is its region's. Blocks
        at most timeout_s each, at start only; without a daemon the client registers by itself
        later. Misuse names what stands in the way; a region that the daemon refused is not ok."""
        raise NotImplementedError

    def computed(self) -> Tuple[Optional[Fence], int]:
        """(fence, value) that is reached when all work that the engine has queued so far is done:
        no copy, load or store, may begin earlier. (None, 0): it is done already."""
        raise NotImplementedError

    def refresh(self, tensors: Dict[str, Any]) -> None:
        """Before register(): brings memory that was allocated elsewhere into a form that can be
        shared. Addresses may change, the tensors follow."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives back what can be given back while tensors are still alive. Idempotent."""
        raise NotImplementedError


class _ZerosInMemfd(torch.overrides.TorchFunctionMode):
    """Answers the one allocation vLLM makes for its KV cache, torch.zeros(bytes, dtype=int8)."""

    def __init__(self, areas: List[Area]) -> None:
        super().__init__()
        self._areas = areas

    def __torch_function__(self, function: Any, types: Any, args: Tuple[Any, ...] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        size = args[0] if len(args) == 1 else None
        if function is torch.zeros and kwargs.get("dtype") is torch.int8 and \
                isinstance(size, int) and size >= AREA_BYTES_MIN and \
                torch.device(kwargs.get("device") or "cpu").type == "cpu":
            area = new_area(size)
            self._areas.append(area)
            return torch.frombuffer(area.mapping, dtype=torch.int8, count=size)
        return function(*args, **kwargs)


def new_area(size: int) -> Area:
    """A zeroed memfd of `size` bytes, its pages reserved: the daemon refuses sparse ones, since it
    would be charged for what it touches first."""
    fd = os.memfd_create("kvsidecar-vllm", os.MFD_CLOEXEC)
    try:
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(fd, whole)
        mapping = mmap.mmap(fd, whole, mmap.MAP_SHARED)
        with contextlib.suppress(OSError):  # attention reads it all: fewer TLB misses, if allowed
            mapping.madvise(mmap.MADV_HUGEPAGE)
        os.posix_fallocate(fd, 0, whole)
    except OSError as error:
        os.close(fd)
        raise Misuse(f"KV cache of {size} bytes: no shared memory of that size ({error.strerror}); "
                     "raise the memory limit or lower --kv-cache-memory-bytes") from None
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    return Area(fd, whole, mapping, address)


class HostDevice(Device):
    """CPU: the forward has ended when it returns, so nothing has to be waited for."""

    def __init__(self) -> None:
        self._areas: List[Area] = []
        self._shared: Dict[int, Tuple[int, int]] = {}  # by address: fd and bytes, torch's own

    def pool_context(self) -> Optional[AbstractContextManager[Any]]:
        return _ZerosInMemfd(self._areas)

    def refresh(self, tensors: Dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            for view in tensor if isinstance(tensor, (list, tuple)) else (tensor,):
                storage = view.untyped_storage()
                address = storage.data_ptr()
                if address in self._shared or any(a.address == address for a in self._areas):
                    continue
                if view.device.type != "cpu":
                    raise Misuse(f"layer {name} lies on {view.device}; this connector serves "
                                 "engines whose KV cache is in host memory (--device cpu)")
                # Swaps the storage in place: every view of it follows, the address changes.
                fd, size = storage._share_fd_cpu_()[:2]
                self._shared[storage.data_ptr()] = (fd, size)

    def register(self, client: Client, storages: Dict[int, Any],
                 timeout_s: float) -> Dict[int, Region]:
        regions: Dict[int, Region] = {}
        for address, storage in storages.items():
            area = next((a for a in self._areas if a.address == address), None)
            if area is not None:
                fd, size = area.fd, area.bytes
            elif address in self._shared:
                fd, size = self._shared[address][0], storage.nbytes()
            else:
                raise Misuse(f"KV cache memory at {address:#x} can't be shared with the daemon; "
                             "start vLLM without sleep mode and custom allocators")
            regions[address] = client.register_fd(fd, size, base=address, timeout=timeout_s)
        return regions

    def computed(self) -> Tuple[Optional[Fence], int]:
        return None, 0

    def close(self) -> None:
        # Mappings stay: tensors of the engine look into them until the process ends.
        for area in self._areas:
            os.close(area.fd)
        self._areas.clear()
        self._shared.clear()


def device_for(vllm_config: Any) -> Device:
    """The device of this engine. Misuse where there is none for it."""
    kind = vllm_config.device_config.device_type
    if kind != "cpu":
        raise Misuse(f"device is {kind}; this release of the connector serves engines with "
                     "--device cpu")
    return HostDevice()

