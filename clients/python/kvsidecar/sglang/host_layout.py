# SPDX-License-Identifier: Apache-2.0
"""Where the pages of one of SGLang's host pools lie, from the addresses that the pool itself tells.

A page is a few contiguous segments (K and V; one a layer; a state and its convolutions), each at
its own base plus page number times its own stride. That is checked on the first, second, middle
and last page, not taken for granted. Imports neither torch nor SGLang.
"""
from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from ..errors import Misuse


class Segment(NamedTuple):
    """One contiguous piece of every page: at address + page * stride. Bytes."""

    address: int
    stride: int
    length: int


class Area(NamedTuple):
    """Memory of a host pool that can be shared: all of a file, mapped from its beginning."""

    address: int
    bytes: int
    fd: int


class Unmappable(Misuse):
    """The pool tells no addresses of its pages, or none that a page number explains."""


def is_logical(pool: Any) -> bool:
    """An anchor without bytes: it only numbers pages, whose bytes are in other pools."""
    return getattr(pool, "kv_buffer", None) is None and not callable(
        getattr(pool, "get_hybrid_pool_buffer", None))


def pages_of(pool: Any) -> int:
    return int(pool.size) // int(pool.page_size)


def _numbers(first: int, count: int) -> Any:
    """Indices as SGLang would pass them."""
    try:
        import torch
        return torch.arange(first, first + count, dtype=torch.int64)
    except ImportError:
        return numpy.arange(first, first + count, dtype=numpy.int64)


def _page(pool: Any, page: int, split: int) -> Tuple[List[int], List[int]]:
    """(addresses, lengths) of the segments of a page. split: shares of the heads."""
    indices = _numbers(page * int(pool.page_size), int(pool.page_size))
    try:
        found = pool.get_split_heads_page_buffer_meta(indices, split) if split > 1 else \
            pool.get_page_buffer_meta(indices)
    except (NotImplementedError, ValueError, AttributeError, TypeError) as error:
        raise Unmappable(f"its pages have no addresses ({error or type(error).__name__})") from None
    if found is None or len(found[0]) == 0 or len(found[0]) != len(found[1]):
        raise Unmappable("its pages have no addresses")
    return [int(address) for address in found[0]], [int(length) for length in found[1]]


def segments_of(pool: Any, split: int = 1) -> List[List[Segment]]:
    """The segments of a page in the order in which the pool tells them, per share of the heads.
    Raises Unmappable."""
    if getattr(pool, "shared_allocation_domain", None) is not None:
        raise Unmappable("it moves its pages while the engine runs")
    pages = pages_of(pool)
    first, lengths = _page(pool, 0, split)
    second = _page(pool, 1, split)[0] if pages > 1 else first
    others = {number: _page(pool, number, split) for number in {pages // 2, pages - 1}}
    segments = []
    for i, (address, length) in enumerate(zip(first, lengths)):
        stride = second[i] - address if pages > 1 else length
        for number, (found, sizes) in others.items():
            if stride < length or found[i] != address + stride * number or sizes[i] != length or \
                    length <= 0:
                raise Unmappable(f"segment {i} of its pages doesn't lie at one distance: page 0 at "
                                 f"{address:#x}, 1 at {second[i]:#x}, {number} at {found[i]:#x}, "
                                 f"of {length} and {sizes[i]} bytes")
        segments.append(Segment(address, stride, length))
    if len(segments) % split:
        raise Unmappable(f"{len(segments)} segments can't be dealt to {split} shares")
    share = len(segments) // split
    return [segments[i * share:(i + 1) * share] for i in range(split)]


def extents(segments: Sequence[Segment], pages: int) -> List[Tuple[int, int]]:
    """(address, bytes) of the memory that holds all pages; segments that lie among each other's
    pages are one."""
    found: List[Tuple[int, int]] = []
    for address, end in sorted((s.address, s.address + s.stride * (pages - 1) + s.length)
                               for s in segments):
        if found and address <= found[-1][0] + found[-1][1]:
            begin = found[-1][0]
            found[-1] = (begin, max(end, begin + found[-1][1]) - begin)
        else:
            found.append((address, end - address))
    return found


def areas_of(pool: Any) -> List[Area]:
    """What SGLang's shm allocator has made for this pool; nothing of any other allocator."""
    allocator = getattr(pool, "allocator", None)
    found = []
    for fd, mapping in zip(getattr(allocator, "fds", None) or (),
                           getattr(allocator, "mms", None) or ()):
        if isinstance(fd, int) and mapping is not None:
            found.append(Area(ctypes.addressof(ctypes.c_char.from_buffer(mapping)), len(mapping),
                              fd))
    return found


def area_around(areas: Sequence[Area], address: int, size: int) -> Optional[Area]:
    """The area that holds those bytes."""
    return next((area for area in areas if area.address <= address and
                 address + size <= area.address + area.bytes), None)


def describe(pool: Any, segments: Sequence[Segment]) -> str:
    """How the bytes of a page are arranged, for the namespace: nothing in it is an address."""
    words = [str(getattr(pool, "layout", "")), type(pool).__name__]
    tag = getattr(pool, "storage_format_tag", None)
    words += [str(tag)] if tag else []
    layers = [getattr(pool, name, None) for name in (
        "start_layer", "end_layer", "layer_num", "num_mamba_layers")]
    words.append("layers " + " ".join(map(str, layers)))
    lengths: List[List[int]] = []  # runs of equal lengths
    for segment in segments:
        if lengths and lengths[-1][1] == segment.length:
            lengths[-1][0] += 1
        else:
            lengths.append([1, segment.length])
    words.append("segments " + " ".join(f"{count}x{length}" for count, length in lengths))
    return ", ".join(words)
