# SPDX-License-Identifier: Apache-2.0
"""What decides the bytes of a page besides its key, and its canonical form. Pure Python.

Canonical form: entries (u16 tag, u32 length, bytes), little-endian, sorted by tag; extra fields
share a tag and are sorted by their bytes. Golden vectors shared with C++: tests/unit/ipc.
"""
from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Sequence, Tuple

from .errors import Misuse

FORMAT_VERSION = 1
IDENTITY_BYTES_MAX = 16 * 1024
PARTS_MAX = 256
PAGE_BYTES_MAX = 1 << 30
POOL_NAME_BYTES_MAX = 64

_FORMAT, _MODEL, _REVISION, _ADAPTER, _SALT, _DTYPE, _QUANTIZATION, _LAYOUT = range(1, 9)
_TOKENS, _POOL, _GEOMETRY, _SLICE, _PARTS, _DRAFT, _SCHEME, _DETACH = range(9, 17)
_EXTRA = 64


class Coordinate(NamedTuple):
    """Which rank's share of a page."""

    tp: int = 0
    pp: int = 0
    cp: int = 0


class Part(NamedTuple):
    coordinate: Coordinate
    bytes: int


@dataclass(frozen=True)
class NamespaceFields:
    """All that decides a page's bytes besides its key; what is required has no default. An optional
    field that is None is absent, which is not the same as ""."""

    model: str
    revision: str  # revision or fingerprint of the weights
    dtype: str
    quantization: str  # "none"
    layout: str  # how a part's bytes are arranged
    pool: str  # "kv", "mamba", …
    draft_model: str  # "none"
    tokens_per_page: int
    tp_size: int
    pp_size: int
    cp_size: int
    slice: int  # this node's slice of the model: 0 of 1 for a whole one
    slices: int
    parts: Sequence[Part]  # of this slice, in the order of their digests
    adapter: Optional[str] = None  # content id of the adapter
    tenant_salt: Optional[str] = None
    key_scheme: Optional[str] = None  # how the engine makes its keys
    extra: Sequence[Tuple[str, str]] = ()  # further fields (name, value)

    @property
    def page_bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


def _refuse(field: str, value: str, remedy: str) -> Misuse:
    return Misuse(f"identity: {field} is {value}; {remedy}")


def _text(field: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise _refuse(field, repr(value), "give a str")
    try:
        encoded = value.encode("utf-8")
    except UnicodeEncodeError:
        raise _refuse(field, "not text", "give UTF-8 without NUL") from None
    if b"\0" in encoded:
        raise _refuse(field, "not text", "give UTF-8 without NUL")
    return encoded


def _required(field: str, value: object) -> bytes:
    if value is None or value == "":
        raise _refuse(field, "missing or empty",
                      'name it ("none" where a quantization or draft model doesn\'t exist)')
    return _text(field, value)


def _number(field: str, value: object, least: int, bits: int) -> int:
    if not isinstance(value, int) or not least <= value < 1 << bits:
        raise _refuse(field, repr(value), f"it must be {least} to {(1 << bits) - 1}")
    return value


def _encode_parts(parts: Sequence[Part]) -> bytes:
    if not 1 <= len(parts) <= PARTS_MAX:
        raise _refuse("parts", f"{len(parts)} parts", f"declare 1 to {PARTS_MAX}")
    encoded: List[bytes] = []
    seen, total = set(), 0
    for coordinate, size in parts:
        numbers = tuple(_number("parts: a coordinate", n, 0, 16) for n in coordinate)
        if len(numbers) != 3:
            raise _refuse("parts: a coordinate", repr(coordinate), "give (tp, pp, cp)")
        if numbers in seen:
            raise _refuse("parts", f"coordinate {numbers} twice", "declare each part once")
        seen.add(numbers)
        total += _number("parts: the bytes of a part", size, 1, 64)
        if total > PAGE_BYTES_MAX:
            raise _refuse("parts", f"{total} bytes together", "a page has 1 GiB at most")
        encoded.append(struct.pack("<4HQ", *numbers, 0, size))
    return b"".join(encoded)


def _encode_extra(extra: Sequence[Tuple[str, str]]) -> List[bytes]:
    values, names = [], set()
    for name, value in extra:
        encoded = _text("an extra field's name", name)
        if not 1 <= len(encoded) <= 0xFFFF:
            raise _refuse("an extra field's name", "empty or longer than 65535 bytes", "name it")
        if encoded in names:
            raise _refuse(name, "an extra field given twice", "give each name once")
        names.add(encoded)
        values.append(struct.pack("<H", len(encoded)) + encoded + _text(name, value))
    return sorted(values)


def encode_identity(fields: NamespaceFields, detach: Optional[bytes] = None) -> bytes:
    """The canonical form. Misuse names the field that is missing or out of range. detach: the 16
    bytes that keep a group's pages its own, as they stand in the canonical form."""
    pool = _required("pool", fields.pool)
    if len(pool) > POOL_NAME_BYTES_MAX:
        raise _refuse("pool", f"{len(pool)} bytes long", f"use at most {POOL_NAME_BYTES_MAX} bytes")
    sizes = [_number(name, getattr(fields, name), 1, 16)
             for name in ("tp_size", "pp_size", "cp_size")]
    slices = _number("slices", fields.slices, 1, 16)
    if not isinstance(fields.slice, int) or not 0 <= fields.slice < slices:
        raise _refuse("slice", f"{fields.slice!r} of {slices} slices",
                      "slices count from 0 and a whole model is slice 0 of 1")
    entries: List[Tuple[int, bytes]] = [
        (_FORMAT, struct.pack("<I", FORMAT_VERSION)),
        (_MODEL, _required("model", fields.model)),
        (_REVISION, _required("revision", fields.revision)),
        (_DTYPE, _required("dtype", fields.dtype)),
        (_QUANTIZATION, _required("quantization", fields.quantization)),
        (_LAYOUT, _required("layout", fields.layout)),
        (_TOKENS, struct.pack("<I", _number("tokens_per_page", fields.tokens_per_page, 1, 32))),
        (_POOL, pool),
        (_GEOMETRY, struct.pack("<3H", *sizes)),
        (_SLICE, struct.pack("<2H", fields.slice, slices)),
        (_PARTS, _encode_parts(fields.parts)),
        (_DRAFT, _required("draft_model", fields.draft_model)),
    ]
    for tag, name in ((_ADAPTER, "adapter"), (_SALT, "tenant_salt"), (_SCHEME, "key_scheme")):
        value = getattr(fields, name)
        if value is not None:
            entries.append((tag, _text(name, value)))
    if detach is not None:
        if len(detach) != 16:
            raise _refuse("detach", f"{len(detach)} bytes", "give 16")
        entries.append((_DETACH, bytes(detach)))
    entries += [(_EXTRA, value) for value in _encode_extra(fields.extra)]
    entries.sort()
    encoded = b"".join(struct.pack("<HI", tag, len(value)) + value for tag, value in entries)
    if len(encoded) > IDENTITY_BYTES_MAX:
        raise _refuse("the encoding", f"{len(encoded)} bytes", f"{IDENTITY_BYTES_MAX} is the most")
    return encoded


@dataclass(frozen=True)
class Description:
    """What a put may tell about a page, kept with it for KV events. All optional."""

    parent_key: bytes = b""
    token_ids: Sequence[int] = ()
    block_size: int = 0
    adapter: Optional[str] = None  # name as routers know it
    extra_keys: bytes = b""
    pool_group: Optional[int] = None

    def encode(self) -> bytes:
        """Entries (u16 tag, u32 length, bytes), sorted by tag; absent ones are left out."""
        entries: List[Tuple[int, bytes]] = []
        if self.parent_key:
            entries.append((1, bytes(self.parent_key)))
        if len(self.token_ids):
            entries.append((2, struct.pack(f"<{len(self.token_ids)}I", *self.token_ids)))
        if self.block_size:
            entries.append((3, struct.pack("<I", self.block_size)))
        if self.adapter is not None:
            entries.append((4, _text("adapter", self.adapter)))
        if self.extra_keys:
            entries.append((5, bytes(self.extra_keys)))
        if self.pool_group is not None:
            entries.append((6, struct.pack("<I", self.pool_group)))
        return b"".join(struct.pack("<HI", tag, len(value)) + value for tag, value in entries)
