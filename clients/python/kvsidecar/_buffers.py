# SPDX-License-Identifier: Apache-2.0
"""Batches as flat buffers: no Python loop per key. numpy is used where it is installed; without it
bytes, array.array and memoryview do the same."""
from __future__ import annotations

import array
import ctypes
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import Misuse

np: Any = None  # everything but Memory.array works without it
try:
    import numpy
    np = numpy
except ImportError:
    pass

KEY_BYTES_MAX = 64

Buffer = Any  # whatever has the buffer protocol: bytes, bytearray, memoryview, array, ndarray
Keys = Union[Buffer, Sequence[bytes]]
Numbers = Union[Buffer, Sequence[int]]

_TYPECODES = {4: "I", 8: "L" if array.array("L").itemsize == 8 else "Q"}


class Packed(NamedTuple):
    """Contiguous memory; `owner` keeps it alive."""

    owner: Any
    address: int
    length: int  # in items: bytes of a flat buffer, keys, numbers


def _flat(buffer: Buffer, what: str) -> Packed:
    """Address and bytes of a contiguous buffer; copies one that is read-only and isn't bytes."""
    if isinstance(buffer, bytes):
        address = ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p).value
        return Packed(buffer, address or 0, len(buffer))
    if np is not None and isinstance(buffer, np.ndarray):
        dense = np.ascontiguousarray(buffer)
        return Packed(dense, dense.ctypes.data, dense.nbytes)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise Misuse(f"{what} is {type(buffer).__name__}; give bytes, an array or a numpy array") \
            from None
    if not view.c_contiguous or view.readonly:
        return _flat(view.tobytes(), what)
    if view.nbytes == 0:
        return Packed(view, 0, 0)
    return Packed(view, ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes)


class PackedKeys(NamedTuple):
    owner: Any
    address: int
    key_bytes: int
    length: int  # keys


def pack_keys(keys: Keys, key_bytes: Optional[int] = None) -> PackedKeys:
    """Keys of one length, end to end. A buffer needs key_bytes, unless it has two dimensions: one
    row a key. A sequence of bytes tells the length itself."""
    if isinstance(keys, (list, tuple)):
        lengths = set(map(len, keys))
        if len(lengths) != 1:
            raise Misuse(f"keys have {sorted(lengths)} bytes; give one or more, all of one length")
        key_bytes = lengths.pop()
        keys = b"".join(keys)
    elif key_bytes is None:
        shape: Tuple[int, ...] = getattr(keys, "shape", ())
        if len(shape) != 2:
            raise Misuse("key_bytes is missing; say how long one key of this buffer is")
        key_bytes = int(shape[1] * getattr(keys, "itemsize", 1))
    flat = _flat(keys, "keys")
    if not 1 <= key_bytes <= KEY_BYTES_MAX:
        raise Misuse(f"key_bytes is {key_bytes}; a key has 1 to {KEY_BYTES_MAX} bytes")
    if flat.length == 0 or flat.length % key_bytes:
        raise Misuse(f"keys has {flat.length} bytes; give one or more keys of {key_bytes} bytes")
    return PackedKeys(flat.owner, flat.address, key_bytes, flat.length // key_bytes)


def pack_numbers(numbers: Numbers, item_bytes: int, what: str) -> Packed:
    """Unsigned integers of item_bytes (4 or 8) each. A buffer of integers of another width is
    converted by numpy, refused without it."""
    if isinstance(numbers, (list, tuple, range)):
        try:
            # Several times faster than numpy's way from a list, and it checks the range itself.
            taken = array.array(_TYPECODES[item_bytes], numbers)
        except OverflowError:
            raise Misuse(f"{what} holds a number outside 0 to {(1 << 8 * item_bytes) - 1}") \
                from None
        except TypeError as error:
            raise Misuse(f"{what}: {error}; give unsigned integers") from None
        address, length = taken.buffer_info()
        return Packed(taken, address, length)
    if np is not None:
        found = np.asarray(numbers)
        wanted = np.dtype(f"u{item_bytes}")
        if found.dtype != wanted:
            if found.dtype.kind not in "ui" and found.size:
                raise Misuse(f"{what} has type {found.dtype}; give unsigned integers")
            if found.size and (int(found.min()) < 0 or int(found.max()) > np.iinfo(wanted).max):
                raise Misuse(f"{what} holds a number outside 0 to {np.iinfo(wanted).max}")
            found = found.astype(wanted)
        dense = np.ascontiguousarray(found).reshape(-1)
        return Packed(dense, dense.ctypes.data, dense.size)
    plain: Any = numbers
    view = memoryview(plain)
    if view.itemsize != item_bytes or view.format not in ("I", "L", "Q"):
        raise Misuse(f"{what} has items of type {view.format}; give unsigned {8 * item_bytes}-bit")
    flat = _flat(view, what)
    return Packed(flat.owner, flat.address, flat.length // item_bytes)


def copied_bytes(address: Optional[int], count: int) -> bytes:
    return ctypes.string_at(address, count) if address and count else b""


def as_array(copied: bytes) -> Any:
    """A numpy uint8 array, or without numpy a memoryview."""
    return np.frombuffer(copied, dtype=np.uint8) if np is not None else memoryview(copied)


def as_bits(copied: bytes, bits: int) -> Any:
    """The first `bits` bits, lowest first, as numpy bools (without numpy: a list of bools)."""
    if np is not None:
        found = np.unpackbits(np.frombuffer(copied, dtype=np.uint8), bitorder="little")
        return found[:bits].astype(bool)
    return [bool(copied[i >> 3] >> (i & 7) & 1) for i in range(min(bits, 8 * len(copied)))]
