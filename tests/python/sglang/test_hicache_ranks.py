# SPDX-License-Identifier: Apache-2.0
"""Goal: ranks of one engine fill their parts of a page, replicas share, and no rank ever reads
another's bytes (O1-04, O4-13).

Method: several backends over one daemon, with the ranks that SGLang gives them.
"""
import types

import pytest

import sglang.srt.runtime_context as runtime
from hicache_scene import hashes
from host_pools import Mamba, Mha, Mla
from sglang.srt.mem_cache.hicache_storage import PoolTransfer

KEYS = hashes("prompt", 3)
HERE, THERE = (1, 2, 3), (7, 8, 9)


def ranks(open_backend, daemon, count, pools=lambda: {"kv": Mha()}, **more):
    return [open_backend(daemon, pools=pools(), tp_rank=rank, tp_size=count, **more)
            for rank in range(count)]


def store(backend, seed, name="kv"):
    """What was stored."""
    pool = backend.hosts[name]
    content = pool.fill(seed, *HERE)
    done = backend.batch_set_v1(KEYS, pool.slots(*HERE)) if name == "kv" else \
        backend.batch_set_v2([PoolTransfer(name, pool.slots(*HERE), keys=KEYS)])[name]
    assert done == [True] * 3
    return content


def load(backend, name="kv"):
    pool = backend.hosts[name]
    pool.fill(77, *THERE)
    done = backend.batch_get_v1(KEYS, pool.slots(*THERE)) if name == "kv" else \
        backend.batch_get_v2([PoolTransfer(name, pool.slots(*THERE), keys=KEYS)])[name]
    return [pool.page(number) if one else None for number, one in zip(THERE, done)]


def test_a_page_counts_for_no_rank_before_all_have_stored_their_parts(daemon, open_backend):
    both = ranks(open_backend, daemon, 2)
    want = [store(both[0], 1)]
    assert [backend.batch_exists(KEYS) for backend in both] == [0, 0]
    assert load(both[0]) == [None] * 3
    want.append(store(both[1], 2))
    assert [backend.batch_exists(KEYS) for backend in both] == [3, 3]
    assert [load(backend) for backend in both] == want


def test_replicated_pages_are_stored_by_the_first_rank_and_read_by_all(daemon, open_backend):
    four = ranks(open_backend, daemon, 4, lambda: {"kv": Mla()}, is_mla_model=True)
    store(four[2], 5)  # acknowledged, and not stored
    assert four[0].batch_exists(KEYS) == 0
    want = store(four[0], 6)
    assert [load(backend) for backend in four] == [want] * 4


def test_states_beside_replicated_pages_are_each_ranks_own(daemon, open_backend):
    both = ranks(open_backend, daemon, 2, lambda: {"kv": Mla(), "mamba": Mamba()},
                 is_mla_model=True)
    store(both[0], 1)
    want = [store(backend, 10 + rank, "mamba") for rank, backend in enumerate(both)]
    assert [load(backend, "mamba") for backend in both] == want
    assert want[0] != want[1]


def test_a_draft_with_heads_of_its_own_is_not_taken_for_replicated(daemon, open_backend):
    both = ranks(open_backend, daemon, 2, lambda: {"kv": Mla(), "draft": Mha()}, is_mla_model=True)
    store(both[0], 1, "draft")
    assert load(both[1], "draft") == [None] * 3


@pytest.mark.parametrize("other", [dict(pp_rank=1), dict(attn_cp_rank=1)])
@pytest.mark.parametrize("mla", [False, True])
def test_stages_and_context_ranks_keep_their_own_pages(daemon, open_backend, other, mla):
    size = dict(pp_size=2, attn_cp_size=2, is_mla_model=mla)
    kind = Mla if mla else Mha
    first = open_backend(daemon, pools={"kv": kind()}, **size)
    second = open_backend(daemon, pools={"kv": kind()}, **size, **other)
    want = store(first, 1)
    assert second.batch_exists(KEYS) == 0 and load(second) == [None] * 3
    also = store(second, 2)
    assert [load(first), load(second)] == [want, also]


def test_data_parallel_replicas_hit_each_others_pages(daemon, open_backend):
    replicas = [open_backend(daemon, pools={"kv": Mha()}, dp_rank=rank) for rank in range(2)]
    want = store(replicas[0], 1)
    assert replicas[1].batch_exists(KEYS) == 3
    assert load(replicas[1]) == want


@pytest.mark.parametrize("alone", [dict(nnodes=2), dict(nnodes=1, attn_cp_size=2)])
def test_ranks_of_several_nodes_or_contexts_need_not_meet(daemon, open_backend, alone):
    nodes = types.SimpleNamespace(nnodes=alone["nnodes"], model_path="m")
    runtime.get_context().set_server_args(nodes)
    both = ranks(open_backend, daemon, 2, attn_cp_size=alone.get("attn_cp_size", 1))
    want = store(both[0], 1)
    assert [backend.batch_exists(KEYS) for backend in both] == [3, 0]
    assert load(both[0]) == want and load(both[1]) == [None] * 3


def test_heads_that_are_split_are_shared_between_engines_of_other_sizes(daemon, open_backend):
    split = dict(tp_lcm_size=2, should_split_heads=True)
    one = open_backend(daemon, pools={"kv": Mha(layout="page_head")}, **split)
    want = store(one, 1)
    assert load(one) == want
    # An engine of two ranks has one of the heads each; its pages aren't split any further.
    half = Mha(layout="page_head").page_bytes // 2
    pools = [Mha(layout="page_head", head_dim=4) for _ in range(2)]
    assert pools[0].page_bytes == half
    two = [open_backend(daemon, pools={"kv": pool}, tp_rank=rank, tp_size=2, tp_lcm_size=2)
           for rank, pool in enumerate(pools)]
    assert [backend.batch_exists(KEYS) for backend in two] == [3, 3]
    for rank, backend in enumerate(two):
        for whole, part in zip(want, load(backend)):
            k, v = whole[:len(whole) // 2], whole[len(whole) // 2:]
            size = len(k) // 2
            assert part == k[rank * size:][:size] + v[rank * size:][:size]
