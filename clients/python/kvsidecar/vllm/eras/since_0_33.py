# SPDX-License-Identifier: Apache-2.0
"""vLLM 0.33: says before it takes the KV cache's memory away (sleep mode) and after it is back."""
from __future__ import annotations

from .since_0_32 import (BlockTables, boundary_states, copied_blocks, hash_block_size,
                         hit_alignment, hit_sources, loads_in_forward, loads_several_groups)

__all__ = ["BlockTables", "boundary_states", "copied_blocks", "hash_block_size", "hit_alignment",
           "hit_sources", "keeps_memory_in_sleep", "loads_in_forward", "loads_several_groups"]

keeps_memory_in_sleep = True
lets_loaded_on_first = True
