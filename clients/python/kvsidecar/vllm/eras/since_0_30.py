# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.30 and 0.31: one buffer under all layers with its address facts, block tables and mamba
states at their boundaries told by the scheduler, failed loads by request."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..identity import GroupSpace
from .since_0_28 import hash_block_size as resolved_hash_block_size
from .since_0_28 import hit_sources

__all__ = ["BlockTables", "boundary_states", "copied_blocks", "hash_block_size", "hit_alignment",
           "hit_sources", "keeps_memory_in_sleep", "loads_in_forward", "loads_several_groups"]

loads_several_groups = True
lets_loaded_on_first = False
keeps_memory_in_sleep = False


def hash_block_size(vllm_config: Any, kv_cache_config: Any) -> int:
    size = getattr(kv_cache_config, "hash_block_size", None)
    return int(size) if size else resolved_hash_block_size(vllm_config, kv_cache_config)


def hit_alignment(kv_cache_config: Any) -> Optional[int]:
    return getattr(kv_cache_config, "cache_hit_alignment_tokens", None)


class BlockTables:
    """As the scheduler gives them with each step; nothing is kept."""

    def __init__(self, spaces: Sequence[GroupSpace]) -> None:
        self._state: Any = None

    def update(self, scheduler_output: Any) -> None:
        self._state = getattr(scheduler_output, "kv_connector_block_state", None)

    def of(self, req_id: str) -> Optional[Tuple[List[int], ...]]:
        state = self._state
        return None if state is None else state.get_block_ids(req_id)

    def drop(self, req_id: str) -> None:
        pass


def boundary_states(scheduler_output: Any) -> Dict[str, List[Tuple[int, int, int]]]:
    state = getattr(scheduler_output, "kv_connector_block_state", None)
    return {} if state is None else state.boundary_state_offloads


def loads_in_forward(scheduler_output: Any, loaded_by_others: bool) -> bool:
    return bool(getattr(scheduler_output, "has_sync_kv_loads", loaded_by_others))


def copied_blocks(scheduler_output: Any) -> List[int]:
    """Both ends of this step's copies: a copied block is then overwritten by its request, while the
    copy keeps what others may hit."""
    copies = getattr(scheduler_output, "kv_cache_block_copies", None)
    return [block for copy in copies for block in copy] if copies else []
