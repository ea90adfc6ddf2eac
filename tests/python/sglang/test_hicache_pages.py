# SPDX-License-Identifier: Apache-2.0
"""Goal: what SGLang reads is byte for byte what it stored, for each kind of host pool, in the order
in which its controllers call (O4-01, O4-04, O4-07, O4-11, O4-12).

Method: small host pools with SGLang's layouts and addresses, a real daemon. Pages are stored, their
memory is filled anew, and they are read into other slots.
"""
import numpy
import pytest

from hicache_scene import hashes
from host_pools import Flat, Indexer, Logical, Mamba, Mha, Mla
from sglang.srt.mem_cache.hicache_storage import (HiCacheStorageExtraInfo, PoolHitPolicy,
                                                  PoolTransfer)
from waiting import eventually

HERE, THERE = (1, 2, 3), (7, 8, 9)
KINDS = {
    "mha page_first": lambda a: Mha(a),
    "mha page_first_direct": lambda a: Mha(a, layout="page_first_direct"),
    "mha layer_first": lambda a: Mha(a, layout="layer_first"),
    "k and v of other sizes": lambda a: Mha(a, head_dim=8, v_head_dim=4),
    "mla page_first": lambda a: Mla(a),
    "mla layer_first": lambda a: Mla(a, layout="layer_first"),
    "without addresses": lambda a: Flat(a),
    "padded rows": lambda a: Indexer(a),
}


def transfer(name, pool, keys, *numbers, **more):
    return PoolTransfer(name, host_indices=pool.slots(*numbers), keys=keys, **more)


def come_back(backend, pool, keys, want):
    """Stores pages HERE, forgets them, reads them THERE."""
    assert backend.batch_set_v1(keys, pool.slots(*HERE), HiCacheStorageExtraInfo()) == [True] * 3
    pool.fill(99, *HERE, *THERE)
    assert backend.batch_get_v1(keys, pool.slots(*THERE), HiCacheStorageExtraInfo()) == [True] * 3
    return [pool.page(number) for number in THERE] == want


@pytest.mark.parametrize("allocator", ["shm", "default"])
@pytest.mark.parametrize("kind", KINDS)
def test_pages_come_back_as_they_were(daemon, open_backend, kind, allocator):
    pool = KINDS[kind](allocator)
    backend = open_backend(daemon, pools={"kv": pool})
    before = [pool.page(number) for number in (0, 4, 6, 10, 11)]
    assert come_back(backend, pool, hashes("a", 3), pool.fill(1, *HERE))
    assert [pool.page(number) for number in (0, 4, 6, 10, 11)] == before, "neighbours are untouched"


def test_a_pool_of_one_page_works(daemon, open_backend):
    pool = Mha(pages=1)
    backend = open_backend(daemon, pools={"kv": pool})
    want = pool.fill(1, 0)
    assert backend.batch_set_v1(hashes("a", 1), pool.slots(0)) == [True]
    pool.fill(2, 0)
    assert backend.batch_get_v1(hashes("a", 1), pool.slots(0)) == [True]
    assert [pool.page(0)] == want


def test_a_get_without_an_exists_before_it_is_served(daemon, open_backend):
    backend = open_backend(daemon)
    pool = backend.hosts["kv"]
    assert come_back(backend, pool, hashes("a", 3), pool.fill(1, *HERE))


def test_a_missing_page_leaves_its_slots_and_no_other_alone(daemon, open_backend):
    backend = open_backend(daemon)
    pool, keys = backend.hosts["kv"], hashes("a", 3)
    want = pool.fill(1, 1, 3)
    assert backend.batch_set_v1([keys[0], keys[2]], pool.slots(1, 3)) == [True, True]
    left = pool.fill(2, *THERE)[1]
    assert backend.batch_get_v1(keys, pool.slots(*THERE)) == [True, False, True]
    assert [pool.page(number) for number in THERE] == [want[0], left, want[1]]


def test_the_first_bytes_under_a_key_stay(daemon, open_backend):
    backend = open_backend(daemon)
    pool, keys = backend.hosts["kv"], hashes("a", 1)
    want = pool.fill(1, 1)
    assert backend.batch_set_v1(keys, pool.slots(1)) == [True]
    pool.fill(2, 1)
    assert backend.batch_set_v1(keys, pool.slots(1)) == [True]
    assert backend.batch_get_v1(keys, pool.slots(2)) == [True]
    assert [pool.page(2)] == want


def test_pages_outlive_a_detach(daemon, open_backend):
    first = open_backend(daemon)
    pool, keys = first.hosts["kv"], hashes("a", 3)
    want = pool.fill(1, *HERE)
    assert first.batch_set_v1(keys, pool.slots(*HERE)) == [True] * 3
    first.close()
    again = open_backend(daemon)
    assert again.batch_exists(keys) == 3
    assert again.batch_get_v1(keys, again.hosts["kv"].slots(*HERE)) == [True] * 3
    assert [again.hosts["kv"].page(number) for number in HERE] == want


def test_all_pools_of_a_hybrid_model_come_back(daemon, open_backend):
    pools = {"kv": Mha(), "swa": Mha(head_dim=4), "mamba": Mamba(), "indexer": Indexer()}
    backend = open_backend(daemon, pools=pools)
    keys = hashes("a", 3)
    want = {name: pool.fill(i, *HERE) for i, (name, pool) in enumerate(pools.items())}
    stored = backend.batch_set_v2([
        transfer("swa", pools["swa"], keys[1:], 2, 3),
        transfer("mamba", pools["mamba"], keys[2:], 3),
        transfer("indexer", pools["indexer"], keys, *HERE)], extra_info=HiCacheStorageExtraInfo())
    assert stored == {"swa": [True] * 2, "mamba": [True], "indexer": [True] * 3}
    assert backend.batch_set_v1(keys, pools["kv"].slots(*HERE)) == [True] * 3

    asked = [PoolTransfer("swa", keys=["__placeholder__"] * 2,
                          hit_policy=PoolHitPolicy.TRAILING_PAGES),
             PoolTransfer("mamba", keys=["__placeholder__"],
                          hit_policy=PoolHitPolicy.TRAILING_PAGES),
             PoolTransfer("indexer", indices_from_pool="kv")]
    found = backend.batch_exists_v2(keys, asked, HiCacheStorageExtraInfo())
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (3, [3])
    for pool in pools.values():
        pool.fill(9, *HERE)
    assert backend.batch_get_v1(keys, pools["kv"].slots(*THERE)) == [True] * 3
    assert backend.batch_get_v2([transfer("indexer", pools["indexer"], keys, *THERE)],
                                extra_info=HiCacheStorageExtraInfo()) == {"indexer": [True] * 3}
    assert backend.batch_get_v2([
        transfer("swa", pools["swa"], keys[1:], 8, 9),
        transfer("mamba", pools["mamba"], keys[2:], 9)], extra_info=HiCacheStorageExtraInfo()) == {
            "swa": [True] * 2, "mamba": [True]}
    assert [pools["kv"].page(n) for n in THERE] == want["kv"]
    assert [pools["indexer"].page(n) for n in THERE] == want["indexer"]
    assert [pools["swa"].page(n) for n in (8, 9)] == want["swa"][1:]
    assert [pools["mamba"].page(9)] == want["mamba"][2:]


def test_pools_keep_their_pages_apart_under_one_key(daemon, open_backend):
    pools = {"kv": Mha(), "draft": Mha()}
    backend = open_backend(daemon, pools=pools)
    key = hashes("a", 1)
    want = pools["kv"].fill(1, 1) + pools["draft"].fill(2, 1)
    assert backend.batch_set_v1(key, pools["kv"].slots(1)) == [True]
    draft = [transfer("draft", pools["draft"], key, 2)]
    assert backend.batch_get_v2(draft) == {"draft": [False]}
    backend.batch_set_v2([transfer("draft", pools["draft"], key, 1)])
    assert backend.batch_get_v2(draft) == {"draft": [True]}
    assert backend.batch_get_v1(key, pools["kv"].slots(2)) == [True]
    assert [pools["kv"].page(2), pools["draft"].page(2)] == want


def test_a_pool_that_comes_later_is_served(daemon, open_backend):
    backend, late = open_backend(daemon), Mha(head_dim=4)
    keys = hashes("a", 3)
    assert backend.batch_set_v2([transfer("draft", late, keys, *HERE)]) == {"draft": [False] * 3}
    backend.register_mem_host_pool_v2(late, "draft")
    want = late.fill(1, *HERE)
    assert backend.batch_set_v2([transfer("draft", late, keys, *HERE)]) == {"draft": [True] * 3}
    assert backend.batch_get_v2([transfer("draft", late, keys, *THERE)]) == {"draft": [True] * 3}
    assert [late.page(number) for number in THERE] == want


def test_an_anchor_without_bytes_has_all_its_pages_and_side_pools_decide(daemon, open_backend):
    pools = {"kv": Logical(), "deepseek_v4_c4": Mla()}
    backend = open_backend(daemon, pools=pools, is_mla_model=True)
    keys, side = hashes("a", 3), pools["deepseek_v4_c4"]
    assert backend.batch_exists(keys) == 3
    assert backend.batch_set_v1(keys, pools["kv"].slots(*HERE)) == [True] * 3
    assert backend.batch_get_v1(keys, pools["kv"].slots(*THERE)) == [True] * 3
    asked = [PoolTransfer("deepseek_v4_c4", indices_from_pool="kv")]
    assert backend.batch_exists_v2(keys, asked).kv_hit_pages == 0
    want = side.fill(1, 1, 2)
    backend.batch_set_v2([transfer("deepseek_v4_c4", side, keys[:2], 1, 2)])
    assert backend.batch_exists_v2(keys, asked).kv_hit_pages == 2
    assert backend.batch_get_v2([transfer("deepseek_v4_c4", side, keys[:2], 7, 8)]) == {
        "deepseek_v4_c4": [True] * 2}
    assert [side.page(7), side.page(8)] == want


def test_an_unbatched_list_of_a_side_pool_is_served_whole(daemon, open_backend):
    pools = {"kv": Mha(pages=2), "indexer": Indexer(pages=700)}
    backend = open_backend(daemon, pools=pools)
    keys, numbers = hashes("a", 700), range(700)
    want = pools["indexer"].fill(1, *numbers)
    many = [transfer("indexer", pools["indexer"], keys, *numbers)]
    assert backend.batch_set_v2(many) == {"indexer": [True] * 700}
    pools["indexer"].fill(2, *numbers)
    assert backend.batch_get_v2(many) == {"indexer": [True] * 700}
    assert [pools["indexer"].page(number) for number in numbers] == want


def test_empty_lists_are_answered_with_empty_lists(daemon, open_backend):
    backend = open_backend(daemon)
    none = numpy.zeros(0, numpy.int64)
    assert backend.batch_get_v1([], none) == [] and backend.batch_set_v1([], none) == []
    assert backend.batch_get_v2([]) == {} and backend.batch_set_v2([]) == {}
    assert backend.batch_get_v2([PoolTransfer("kv")]) == {"kv": []}
    assert backend.batch_exists([]) == 0
    assert backend.batch_exists_v2([], []).kv_hit_pages == 0
    assert backend.batch_set([], []) is True and backend.batch_get([], []) == []


def test_lists_of_the_caller_stay_the_callers(daemon, open_backend):
    backend = open_backend(daemon)
    pool, keys, prefix = backend.hosts["kv"], hashes("a", 3), hashes("p", 2)
    info = HiCacheStorageExtraInfo(prefix_keys=prefix)
    given = [list(keys), list(prefix)]
    backend.batch_set_v1(keys, pool.slots(*HERE), info)
    backend.batch_exists(keys, info)
    assert [keys, info.prefix_keys] == given
    prefix += keys  # as older controllers do after a call
    keys.clear()
    assert backend.batch_exists(hashes("a", 3)) == 3


def test_pages_may_be_durable(daemon, open_backend):
    backend = open_backend(daemon, extra={"durable": True})
    pool, keys = backend.hosts["kv"], hashes("a", 3)
    want = pool.fill(1, *HERE)
    assert backend.batch_set_v1(keys, pool.slots(*HERE)) == [True] * 3
    daemon.kill()
    daemon.forget_pool()
    daemon.start()
    again = open_backend(daemon)
    there = again.hosts["kv"].slots(*THERE)
    eventually(lambda: again.batch_get_v1(keys, there) == [True] * 3, "it has read in its store")
    assert [again.hosts["kv"].page(number) for number in THERE] == want
