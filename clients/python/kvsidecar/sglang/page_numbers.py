# SPDX-License-Identifier: Apache-2.0
"""What SGLang calls pages, as the daemon knows them: keys as bytes, slots as page numbers."""
from __future__ import annotations

import binascii
import hashlib
from typing import Any, NamedTuple, Sequence

import numpy

from ..errors import Misuse

HASH_CHARACTERS = 64  # a page's SHA-256 in hex
OTHER_KEY_BYTES = 40  # of keys that aren't one: no hash is that long


class Keys(NamedTuple):
    joined: bytes  # end to end
    key_bytes: int
    length: int  # keys

    def key(self, index: int) -> bytes:
        return self.joined[index * self.key_bytes:(index + 1) * self.key_bytes]

    @property
    def last(self) -> bytes:
        return self.joined[-self.key_bytes:]

    def part(self, first: int, end: int) -> "Keys":
        return Keys(self.joined[first * self.key_bytes:end * self.key_bytes], self.key_bytes,
                    end - first)


def pack_hashes(keys: Sequence[str]) -> Keys:
    """The keys of one call, at least one: page hashes become their 32 bytes, any other text (a
    draft's in older releases) a digest of itself. Misuse for a call that mixes the two."""
    try:
        packed = binascii.unhexlify("".join(keys))  # bytes.fromhex takes half as long again
    except (ValueError, TypeError):
        packed = b""
    if len(packed) == len(keys) * HASH_CHARACTERS // 2 and \
            set(map(len, keys)) == {HASH_CHARACTERS}:
        return Keys(packed, HASH_CHARACTERS // 2, len(keys))
    if any(_is_hash(key) for key in keys):
        raise Misuse("keys holds page hashes and others; give one kind a call")
    packed = b"".join(hashlib.blake2b(str(key).encode("utf-8", "surrogatepass"),
                                      digest_size=OTHER_KEY_BYTES).digest() for key in keys)
    return Keys(packed, OTHER_KEY_BYTES, len(keys))


def _is_hash(key: Any) -> bool:
    if not isinstance(key, str) or len(key) != HASH_CHARACTERS:
        return False
    try:
        return len(bytes.fromhex(key)) == HASH_CHARACTERS // 2
    except ValueError:
        return False


def page_numbers(host_indices: Any, keys: int, tokens: int, pages: int) -> Any:
    """The page number of each key (numpy, u4), from SGLang's slot numbers: `tokens` in a row for
    each page. Misuse where they aren't whole pages of a pool of `pages` pages."""
    slots = numpy.asarray(host_indices)
    if slots.dtype.kind not in "iu" or slots.ndim != 1:
        raise Misuse(f"host_indices is {slots.dtype} of {slots.ndim} dimensions; give one of whole "
                     "numbers")
    if len(slots) != keys * tokens:
        raise Misuse(f"host_indices has {len(slots)} slots for {keys} keys of {tokens} tokens; "
                     f"give {keys * tokens}")
    rows = slots.reshape(keys, tokens)
    first = rows[:, 0]
    if (first % tokens).any() or (rows != first[:, None] + numpy.arange(tokens)).any():
        raise Misuse(f"host_indices aren't whole pages of {tokens} slots; give each page's slots "
                     "in a row, aligned to a page")
    if keys and not 0 <= int(first.min()) <= int(first.max()) < pages * tokens:
        raise Misuse(f"host_indices reach from {int(first.min())} to {int(first.max())}; the pool "
                     f"has slots 0 to {pages * tokens - 1}")
    return (first // tokens).astype(numpy.uint32)
