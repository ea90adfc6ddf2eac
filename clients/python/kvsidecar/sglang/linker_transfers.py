# SPDX-License-Identifier: Apache-2.0
"""From SGLang's transfers, one per component of its tree, to pages of the pools that the daemon
knows."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import Misuse
from .linker_pools import DevicePool


class Pages(NamedTuple):
    """Pages of one pool."""

    pool: DevicePool
    keys: bytes  # end to end
    key_bytes: int
    blocks: List[int]  # one a key


class Asked(NamedTuple):
    """A tail whose restorable lengths are asked for."""

    keys: bytes  # of its pages, end to end
    key_bytes: int
    trailing: Dict[str, int]  # pages that a pool needs before a prefix's end, by source

    @property
    def pages(self) -> int:
        return len(self.keys) // self.key_bytes


def packed(keys: Sequence[str]) -> bytes:
    """SGLang's page hashes, hexadecimal, end to end."""
    try:
        return bytes.fromhex("".join(keys))
    except ValueError:
        raise Misuse(f"a key isn't hexadecimal, as {keys[0]!r:.80}") from None


def _key_bytes(joined: bytes, keys: Sequence[str]) -> int:
    size = len(joined) // len(keys)
    if size * 2 != len(keys[0]) or size * len(keys) != len(joined) or not 1 <= size <= 64:
        raise Misuse(f"keys have several lengths, the first {len(keys[0])} digits; all must be of "
                     "one length of 2 to 128 hexadecimal digits")
    return size


def split(pages: Pages) -> List[bytes]:
    """Its keys, one by one."""
    size = pages.key_bytes
    return [pages.keys[at:at + size] for at in range(0, len(pages.keys), size)]


def asked(pools: Dict[str, DevicePool], transfers: Sequence[Any]) -> Optional[Asked]:
    """Of a lookup; None where a pool's source isn't asked about: nothing can be restored."""
    by_name = {str(transfer.name): transfer for transfer in transfers}
    kv = by_name.get("kv")
    if kv is None or not kv.keys:
        return None
    trailing: Dict[str, int] = {}
    for pool in pools.values():
        source = by_name.get(pool.source)
        if source is None or not source.keys:
            return None
        if pool.source != "kv":
            trailing[pool.source] = len(source.keys)
    joined = packed(kv.keys)
    return Asked(joined, _key_bytes(joined, kv.keys), trailing)


def expanded(pools: Dict[str, DevicePool], transfers: Sequence[Any]) -> List[Pages]:
    """Of a load or an offload: the pages of every pool that one of the transfers is about. Misuse
    for indices that aren't whole pages of the pool."""
    by_name = {str(transfer.name): transfer for transfer in transfers}
    pages = []
    for pool in pools.values():
        source = by_name.get(pool.source)
        if source is None or not source.keys or source.device_indices is None:
            continue
        joined = packed(source.keys)
        blocks = _blocks(pool, pool.translated(source.device_indices))
        if len(blocks) != len(source.keys):
            raise Misuse(f"pool {pool.name}: {len(source.keys)} keys with indices of "
                         f"{len(blocks)} pages; give one page each")
        pages.append(Pages(pool, joined, _key_bytes(joined, source.keys), blocks))
    return pages


def _blocks(pool: DevicePool, indices: Any) -> List[int]:
    slots = np.asarray(indices.cpu() if hasattr(indices, "cpu") else indices).reshape(-1)
    if slots.size % pool.slots == 0:
        pages = slots.reshape(-1, pool.slots)
        firsts = pages[:, 0]
        if not (firsts % pool.slots).any() and \
                (pages == firsts[:, None] + np.arange(pool.slots)).all():
            return _checked(pool, firsts // pool.slots)
    raise Misuse(f"pool {pool.name}: {slots.size} indices aren't whole pages of {pool.slots} "
                 "slots, each at a multiple of that")


def _checked(pool: DevicePool, blocks: Any) -> List[int]:
    if blocks.size and not 0 <= int(blocks.min()) <= int(blocks.max()) < pool.blocks:
        raise Misuse(f"pool {pool.name}: pages {int(blocks.min())} to {int(blocks.max())} aren't "
                     f"all of the pool's {pool.blocks}")
    return list(blocks.tolist())
