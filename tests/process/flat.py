# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers by hand: tables of scalars, structs and vectors, as ipc/kvsidecar.fbs has them. No
checks: what is wrong on purpose must be buildable."""
import struct


class Scalar:
    def __init__(self, code, value):
        self.data = struct.pack("<" + code, value)
        self.align = len(self.data)


class Struct:
    def __init__(self, data, align=8):
        self.data, self.align = data, align


class Vector:
    """`count` None: as many elements as there are; another number is a lie."""

    def __init__(self, data, element_bytes=1, count=None):
        self.data = bytes(data)
        self.count = len(self.data) // element_bytes if count is None else count
        self.align = 4


def _pad(buffer, align):
    buffer.extend(b"\0" * (-len(buffer) % align))


def table(fields):
    """{field number: Scalar | Struct | Vector} as a finished buffer."""
    slots = max(fields, default=-1) + 1
    buffer = bytearray(4)  # the root's offset
    vtable = len(buffer)
    buffer.extend(bytes(4 + 2 * slots))
    _pad(buffer, 8)
    start = len(buffer)
    buffer.extend(bytes(4))
    struct.pack_into("<i", buffer, start, start - vtable)
    pending = []
    for number, field in sorted(fields.items()):
        _pad(buffer, field.align)
        struct.pack_into("<H", buffer, vtable + 4 + 2 * number, len(buffer) - start)
        if isinstance(field, Vector):
            pending.append((len(buffer), field))
            buffer.extend(bytes(4))
        else:
            buffer.extend(field.data)
    struct.pack_into("<HH", buffer, vtable, 4 + 2 * slots, len(buffer) - start)
    struct.pack_into("<I", buffer, 0, start)
    for place, vector in pending:
        while (len(buffer) + 4) % 8:  # elements are aligned to 8
            buffer.append(0)
        struct.pack_into("<I", buffer, place, len(buffer) - place)
        buffer.extend(struct.pack("<I", vector.count) + vector.data)
    return bytes(buffer)


def u8(value):
    return Scalar("B", value)


def u16(value):
    return Scalar("H", value)


def u32(value):
    return Scalar("I", value)


def u64(value):
    return Scalar("Q", value)


def keys(values, count=None):
    return Vector(b"".join(values), 1, count)


def blocks(items, count=None):
    """(layout, block, claim) each."""
    return Vector(b"".join(struct.pack("<QII", *item) for item in items), 16, count)


def layout_runs(runs):
    """(region, base, block stride, run length) each."""
    return Vector(b"".join(struct.pack("<4Q", *run) for run in runs), 32)


def run_items(items):
    """(first run, runs, claim) each."""
    return Vector(b"".join(struct.pack("<4I", *item, 0) for item in items), 16)


def runs(items):
    """(region, offset, length) each."""
    return Vector(b"".join(struct.pack("<3Q", *item) for item in items), 24)


def pools(items):
    """(namespace, policy, pages) each."""
    return Vector(b"".join(struct.pack("<QII", *item) for item in items), 16)


def attach(identity, **more):
    return table({0: Vector(identity), 4: Struct(struct.pack("<4H", 0, 0, 0, 0), 2), **more})


def register_region(token, bytes_, offset=0, echo_offset=0, nonce=0, kind=0):
    return table({0: u64(token), 1: u8(kind), 2: u64(bytes_), 3: u64(offset), 4: u64(echo_offset),
                  5: u64(nonce)})


def register_layout(block_count, runs_):
    return table({0: u32(block_count), 1: layout_runs(runs_)})


def transfer(namespace, keys_, items, key_bytes=None, count=None, **more):
    """A put or a get of blocks."""
    return table({0: u64(namespace), 1: u8(len(keys_[0]) if key_bytes is None else key_bytes),
                  2: keys(keys_, count), 3: blocks(items, count), **more})


def lookup(namespace, keys_, key_bytes=None, count=None, total=None, offset=0, lease_ms=0):
    return table({0: u8(len(keys_[0]) if key_bytes is None else key_bytes), 1: keys(keys_, count),
                  2: u32(offset), 3: u32(len(keys_) if total is None else total),
                  4: pools([(namespace, 0, 0)]), 6: u32(lease_ms)})


def stat(what=0, offset=0):
    return table({0: u8(what), 1: u32(offset)})
