# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.32: asks where the tokens of a hit were found."""
from __future__ import annotations

from typing import Any, Dict

from vllm.v1.metrics.cache_hit_source import CacheHitSource

from .since_0_30 import (BlockTables, boundary_states, copied_blocks, hash_block_size,
                         hit_alignment, loads_in_forward, loads_several_groups)

__all__ = ["BlockTables", "boundary_states", "copied_blocks", "hash_block_size", "hit_alignment",
           "hit_sources", "keeps_memory_in_sleep", "loads_in_forward", "loads_several_groups"]

keeps_memory_in_sleep = False
lets_loaded_on_first = True

_SOURCES = {"host": CacheHitSource.HOST, "store": CacheHitSource.DISK,
            "remote": CacheHitSource.P2P}


def hit_sources(places: Dict[str, int]) -> Dict[Any, int]:
    """Non-zero counts only, as vLLM wants them."""
    return {_SOURCES[place]: count for place, count in places.items() if count}
