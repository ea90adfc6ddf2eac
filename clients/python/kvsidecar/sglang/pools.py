# SPDX-License-Identifier: Apache-2.0
"""SGLang's host pools as the daemon knows them: their memory registered, their pages laid out, a
namespace each."""
from __future__ import annotations

import ctypes
import functools
import logging
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .. import Client, Layout, Misuse, Region, Run
from ..identity import Coordinate
from .flat import FlatPages
from .host_layout import (Area, Segment, Unmappable, area_around, areas_of, describe, extents,
                          is_logical, pages_of, segments_of)
from .identity import Engine, space_of
from .session import Session

logger = logging.getLogger("sglang.kvsidecar")

# Pools of which each tp rank has bytes of its own even where KV is the same on all of them.
ALWAYS_SHARDED = ("mamba",)
STAGING_BYTES = 64 << 20  # the client library's own choice


class Share(NamedTuple):
    """What is put or got of a page in one operation: all of this rank's part of it, or with head
    splitting one virtual rank's."""

    name: str  # of the session's attachment
    layout: Layout
    coordinate: Coordinate


class HostPool:
    """One registered pool."""

    def __init__(self, name: str, host: Any) -> None:
        self.name, self.host = name, host
        self.tokens = int(host.page_size)
        self.pages = pages_of(host)
        self.logical = is_logical(host)
        self.writes = True  # this rank stores pages of it
        self.shares: List[Share] = []
        self.flat: Optional[FlatPages] = None  # instead of shares: pages go through a buffer
        self.page_bytes = 0
        self.regions: List[Region] = []

    @property
    def usable(self) -> bool:
        return bool(self.shares) or self.flat is not None

    def same_shape(self, other: "HostPool") -> bool:
        return (self.tokens, self.pages, self.logical, self.page_bytes) == (
            other.tokens, other.pages, other.logical, other.page_bytes)


class Pools:
    """Registering: SGLang's main thread. Looking one up: any thread."""

    def __init__(self, session: Session, engine: Engine, replicated: bool, split: int,
                 in_place: bool = True, staging_bytes: int = 0) -> None:
        """replicated: all tp ranks hold the same KV. split: shares of the heads a page is stored
        in, 1 where they aren't split. in_place: SGLang has KV pages read and written where they
        lie. staging_bytes: through which pages go that can't be shared; 0: STAGING_BYTES."""
        self._session, self.engine = session, engine
        self._replicated, self._split = replicated, split
        self._in_place, self._staging_bytes = in_place, staging_bytes or STAGING_BYTES
        self._pools: Dict[str, HostPool] = {}
        self._refused: Dict[str, str] = {}

    def get(self, name: str) -> Optional[HostPool]:
        """None: it was never registered, or couldn't be."""
        return self._pools.get(name)

    def names(self) -> List[str]:
        return list(self._pools)

    def register(self, name: str, host: Any) -> None:
        """Registers a pool's memory and attaches to its namespace; waits at most attach_timeout for
        each. Again: nothing. Raises Misuse for one that can't be served; it isn't used then."""
        known = self._pools.get(name)
        if known is not None and known.host is host:
            return
        if name in self._refused:
            raise Misuse(self._refused[name])
        pool = HostPool(name, host)
        if not pool.logical:
            self._lay_out(pool)
        if known is not None and not known.same_shape(pool):
            # Slot numbers of one would be taken for the other's.
            del self._pools[name]
            self._refused[name] = (
                f"pool {name} was registered with {known.pages} pages of {known.tokens} tokens and "
                f"{known.page_bytes} bytes, and again with {pool.pages} of {pool.tokens} and "
                f"{pool.page_bytes}; it isn't used any more, attach anew")
            raise Misuse(self._refused[name])
        self._pools[name] = pool

    def _lay_out(self, pool: HostPool) -> None:
        replicated = self.is_replicated(pool)
        pool.writes = self.engine.ranks.writes(replicated)
        if pool.name == "kv" and not self._in_place:
            self._flat(pool, replicated)
            return
        try:
            shares = segments_of(pool.host, self._split if pool.name == "kv" else 1)
        except Unmappable as reason:
            self._session.say_once(f"pool {pool.name}: {reason}; its pages are copied one by one",
                                   logging.INFO)
            self._flat(pool, replicated)
            return
        if pool.pages < 1:
            raise Misuse(f"pool {pool.name} has no page: {pool.host.size} slots, pages of "
                         f"{pool.tokens}")
        client = self._session.client
        if client is None:
            return
        every = [segment for share in shares for segment in share]
        regions = self._regions(client, pool, every, max(
            sum(segment.length for segment in share) for share in shares))
        ranks = self.engine.ranks.split(self.engine.ranks.tp_size * len(shares)) \
            if len(shares) > 1 else [self.engine.ranks]
        for i, (share, rank) in enumerate(zip(shares, ranks)):
            runs = [run for segment in share for run in _run(regions, segment)]
            layout = self._session.register(
                functools.partial(client.register_layout, pool.pages, runs))
            if not layout.ok:
                raise Misuse(f"the daemon refused the layout of pool {pool.name}: "
                             f"{layout.status.name} {layout.text}")
            page_bytes = sum(segment.length for segment in share)
            space = space_of(
                self.engine, pool.name, tokens=pool.tokens, page_bytes=page_bytes,
                layout=describe(pool.host, share),
                dtype=str(getattr(pool.host, "dtype", "")) or "?", replicated=replicated,
                ranks=rank)
            label = f"{pool.name} {i}" if len(shares) > 1 else pool.name
            if not self._session.attach(label, space):
                raise Misuse(f"the daemon refused pool {pool.name}")
            pool.page_bytes += page_bytes
            pool.shares.append(Share(label, layout, space.coordinate))

    def is_replicated(self, pool: HostPool) -> bool:
        """Whether all tp ranks hold the same bytes of it, so that one stores them."""
        if not self._replicated or pool.name in ALWAYS_SHARDED:
            return False
        # A draft with heads of its own is dealt to the ranks also beside a replicated target.
        return not (pool.name.startswith("draft") and hasattr(pool.host, "head_num") and
                    not hasattr(pool.host, "kv_lora_rank"))

    def _regions(self, client: Client, pool: HostPool, segments: Sequence[Segment],
                 piece_bytes: int) -> List[Any]:
        """(address, bytes, region) of all memory that the segments lie in. piece_bytes: of a page,
        what is stored at once."""
        areas = areas_of(pool.host)
        made: List[Any] = []
        by_area: Dict[Area, Region] = {}
        for address, size in extents(segments, pool.pages):
            area = area_around(areas, address, size)
            if area is None:
                self._say_staged(pool, piece_bytes)
                buffer = (ctypes.c_ubyte * size).from_address(address)
                region = self._session.register(functools.partial(client.register_staged, buffer))
                made.append((address, size, region))
            elif area not in by_area:
                region = self._session.register(functools.partial(
                    client.register_fd, area.fd, area.bytes, 0, area.address))
                by_area[area] = region
                made.append((area.address, area.bytes, region))
            else:
                continue
            if not region.ok:
                raise Misuse(f"the daemon refused the memory of pool {pool.name} ({region.bytes} "
                             f"bytes): {region.status.name} {region.text}")
        pool.regions = [region for _, _, region in made]
        return made

    def _say_staged(self, pool: HostPool, piece_bytes: int) -> None:
        if piece_bytes > self._staging_bytes:
            raise Misuse(
                f"pool {pool.name} has pages of {piece_bytes} bytes and staging_mib is "
                f"{self._staging_bytes >> 20}, which holds none of them; set staging_mib to "
                f'{-(-piece_bytes >> 20)} or more, or add "allocator": "shm"')
        self._session.say_once(
            "the host pools' memory can't be shared with the daemon, so each page is copied once "
            'more; add "allocator": "shm" to --hicache-storage-backend-extra-config (as JSON in '
            "the flag itself, not as @file)")

    def _flat(self, pool: HostPool, replicated: bool) -> None:
        pool.flat = FlatPages.of_pool(self._session, self.engine, pool.name, pool.host, replicated)
        pool.page_bytes = pool.flat.page_bytes


def _run(regions: Sequence[Any], segment: Segment) -> List[Run]:
    for address, size, region in regions:
        if address <= segment.address < address + size:
            return [Run(region, segment.address - address, segment.stride, segment.length)]
    raise Misuse(f"memory at {segment.address:#x} isn't registered")
