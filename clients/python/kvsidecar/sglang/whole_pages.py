# SPDX-License-Identifier: Apache-2.0
"""SGLang's older interface: pages come and go as flat tensors, of whatever size, under any key."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence

from ..errors import Misuse
from .flat import FlatPages, as_contiguous, tensor_bytes
from .hicache_settings import HiCacheSettings
from .identity import Engine
from .page_numbers import OTHER_KEY_BYTES, Keys, pack_hashes
from .pools import Pools
from .session import Session

SIZES_MAX = 16  # of pages; each has a buffer and a namespace


class WholePages:
    """Any thread, one call at a time."""

    def __init__(self, session: Session, engine: Engine, settings: HiCacheSettings,
                 pools: Pools) -> None:
        self._session, self.engine, self._settings = session, engine, settings
        self._pools = pools
        self._others: Dict[int, FlatPages] = {}  # by bytes

    def _pages(self, size: int) -> Optional[FlatPages]:
        kv = self._pools.get("kv")
        if kv is None or kv.logical:
            raise Misuse("pool kv isn't registered, or has no bytes")
        if kv.flat is not None and kv.flat.page_bytes == size:
            return kv.flat
        found = self._others.get(size)
        if found is None:
            if len(self._others) >= SIZES_MAX or size <= 0:
                raise Misuse(f"pages of {size} bytes beside those of {len(self._others)} other "
                             "sizes")
            found = self._others[size] = FlatPages.of_size(
                self._session, self.engine, "kv", kv.host, size, self._pools.is_replicated(kv))
        return found

    def names_for(self, keys: Keys) -> Optional[List[str]]:
        """Where pages of such keys may be stored; None: among the KV pool's own pages."""
        if keys.key_bytes != OTHER_KEY_BYTES:
            return None
        kv = self._pools.get("kv")
        own = [kv.flat.label] if kv is not None and kv.flat is not None else []
        return own + [pages.label for pages in self._others.values()]

    def set(self, keys: List[str], values: Optional[Sequence[Any]]) -> bool:
        """Whether all are stored."""
        if not keys:
            return True
        if values is None or len(values) != len(keys) or any(value is None for value in values):
            raise Misuse(f"{0 if values is None else len(values)} values for {len(keys)} keys; "
                         "give a tensor each")
        pages = self._pages(tensor_bytes(values[0]))
        if pages is None or not pages.writes:
            return pages is not None
        held: List[Any] = []

        def page(index: int) -> Any:
            held[:] = [as_contiguous(values[index])]
            return held[0]

        return all(pages.put(pack_hashes(keys), page, self._settings.set_timeout_s,
                             self._settings.durable))

    def get(self, keys: List[str], targets: Optional[Sequence[Any]]) -> List[Any]:
        """For each key its target, filled, or None."""
        if not keys:
            return []
        if targets is None or len(targets) != len(keys) or any(t is None for t in targets):
            raise Misuse(f"{0 if targets is None else len(targets)} targets for {len(keys)} keys; "
                         "give a tensor each")
        sizes = {tensor_bytes(target) for target in targets}
        if len(sizes) != 1 or not all(target.is_contiguous() for target in targets):
            raise Misuse(f"targets have {sorted(sizes)} bytes; give contiguous ones of one size")
        pages = self._pages(sizes.pop())
        if pages is None:
            return [None] * len(keys)

        def take(index: int, address: int) -> None:
            ctypes.memmove(targets[index].data_ptr(), address, pages.page_bytes)

        there = pages.get(pack_hashes(keys), take, self._settings.get_timeout_s)
        return [target if found else None for target, found in zip(targets, there)]
