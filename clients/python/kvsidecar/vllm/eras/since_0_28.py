# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.28 and 0.29: a storage per layer; the connector keeps block tables itself; there is no way
to report a failed load of a model with several KV cache groups, so such models only store."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

from ..identity import GroupSpace

loads_several_groups = False
lets_loaded_on_first = False
keeps_memory_in_sleep = False


def hash_block_size(vllm_config: Any, kv_cache_config: Any) -> int:
    """Tokens of one of a request's block hashes."""
    return int(resolve_kv_cache_block_sizes(kv_cache_config, vllm_config)[1])


def hit_alignment(kv_cache_config: Any) -> Optional[int]:
    """Of which vLLM wants a hit to be a multiple; None: of all groups' blocks."""
    return None


class BlockTables:
    """Per request the blocks of each group, from what each step appends or replaces. That vLLM has
    taken back what a window has left behind isn't told: such blocks may be anybody's."""

    def __init__(self, spaces: Sequence[GroupSpace]) -> None:
        self._tables: Dict[str, Tuple[List[int], ...]] = {}
        self._moving = [space for space in spaces if space.kind not in ("full", "none")]
        self._computed: Dict[str, int] = {}  # before the step, where groups move on

    def update(self, scheduler_output: Any) -> None:
        """Once a step, before the tables are asked for."""
        for new in scheduler_output.scheduled_new_reqs:
            self._tables[new.req_id] = tuple(list(ids) for ids in new.block_ids)
        cached = scheduler_output.scheduled_cached_reqs
        for req_id, blocks in zip(cached.req_ids, cached.new_block_ids):
            if blocks is None:
                continue
            if req_id in cached.resumed_req_ids or req_id not in self._tables:
                self._tables[req_id] = tuple(list(ids) for ids in blocks)
            else:
                for table, ids in zip(self._tables[req_id], blocks):
                    table.extend(ids)
        if self._moving:
            self._computed.update(zip(cached.req_ids, cached.num_computed_tokens))
            self._computed.update((new.req_id, new.num_computed_tokens)
                                  for new in scheduler_output.scheduled_new_reqs)

    def of(self, req_id: str) -> Optional[Tuple[List[int], ...]]:
        """Of a request that is scheduled in this step."""
        tables = self._tables.get(req_id)
        for space in self._moving if tables is not None else ():
            table = tables[space.group]
            left = min(left_behind(space, self._computed.get(req_id, 0)), len(table))
            table[:left] = [0] * left
        return tables

    def drop(self, req_id: str) -> None:
        """The request has ended or lost its blocks."""
        self._tables.pop(req_id, None)
        self._computed.pop(req_id, None)


def left_behind(space: GroupSpace, computed: int) -> int:
    """How many of a group's first blocks vLLM has taken back, at most, of a request with that many
    computed tokens."""
    if space.window is not None:
        return max(0, computed - space.window + 1) // space.tokens_per_page
    return computed // space.tokens_per_page


def boundary_states(scheduler_output: Any) -> Dict[str, List[Tuple[int, int, int]]]:
    """Per request (group, block, tokens) of recurrent states that are whole at this step's end:
    not told in these releases."""
    return {}


def copied_blocks(scheduler_output: Any) -> List[int]:
    """Blocks that this step overwrites with a copy of others."""
    return []


def loads_in_forward(scheduler_output: Any, loaded_by_others: bool) -> bool:
    """Whether a connector loads before or within this step's forward; loaded_by_others: requests
    begin with tokens of another connector's, it isn't told how they come."""
    return loaded_by_others


def hit_sources(places: Dict[str, int]) -> Dict[Any, int]:
    """vLLM's own words for where tokens were found: it doesn't ask in these releases."""
    return {}
