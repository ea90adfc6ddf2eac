# SPDX-License-Identifier: Apache-2.0
"""Goal: no page is made of a block that vLLM has taken back, also where a release doesn't tell.

Method: the block tables that the connector keeps for vLLM before 0.30, beside what vLLM's manager
of windows frees.
"""
import types

import pytest

from kvsidecar.vllm.eras.since_0_28 import BlockTables
from vllm_fakes import (FullAttentionSpec, SlidingWindowSpec, cache, group, spaces)

BLOCKS = 40


def output(new=(), running=()):
    """new: (blocks of each group, computed tokens); running: computed tokens."""
    return types.SimpleNamespace(
        scheduled_new_reqs=[types.SimpleNamespace(req_id="r", block_ids=blocks,
                                                  num_computed_tokens=computed)
                            for blocks, computed in new],
        scheduled_cached_reqs=types.SimpleNamespace(
            req_ids=["r"] * len(running), new_block_ids=[None] * len(running),
            resumed_req_ids=set(), num_computed_tokens=list(running)))


@pytest.mark.parametrize("window", [32, 33, 64, 100])
@pytest.mark.parametrize("computed", [0, 1, 31, 32, 33, 95, 96, 97, 500, 1280])
def test_what_a_window_has_left_behind_is_no_block_any_more(window, computed):
    found = spaces(None, cache(group(FullAttentionSpec()),
                               group(SlidingWindowSpec(sliding_window=window), ["w"])))
    tables = BlockTables(found)
    full, windowed = list(range(1, BLOCKS + 1)), list(range(101, BLOCKS + 101))
    tables.update(output(new=[((full, windowed), 0)]))
    tables.update(output(running=[computed]))
    gone = max(0, computed - window + 1) // 32  # as SlidingWindowManager frees them
    assert tables.of("r") == (full, [0] * gone + windowed[gone:])
    tables.drop("r")
    assert tables.of("r") is None and tables._computed == {}
