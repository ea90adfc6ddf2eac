# SPDX-License-Identifier: Apache-2.0
"""Goal: a query promises exactly the prefixes that all pools can restore, and keeps them until they
are read (O4-06, O4-08).

Method: pages of single pools are stored one by one, then a query is compared with the set of
lengths that each pool allows by hand. The daemon's own account tells of leases.
"""
import pytest

import kvsidecar
from hicache_scene import hashes
from host_pools import Logical, Mamba, Mha
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolTransfer
from waiting import eventually

KEYS = hashes("prompt", 6)
WINDOW = PoolHitPolicy.TRAILING_PAGES


def store(backend, name, *pages):
    """Pages of the prompt, counted from 1, in one pool."""
    pool, keys = backend.hosts[name], [KEYS[page - 1] for page in pages]
    pool.fill(1, *pages)
    if name == "kv":
        assert backend.batch_set_v1(keys, pool.slots(*pages)) == [True] * len(pages)
    elif pages:
        assert backend.batch_set_v2([PoolTransfer(name, pool.slots(*pages), keys=keys)]) == {
            name: [True] * len(pages)}


def window(name, pages=1):
    return PoolTransfer(name, keys=["__placeholder__"] * pages, hit_policy=WINDOW)


@pytest.fixture
def hybrid(daemon, open_backend):
    return open_backend(daemon, extra={"lease_s": 600}, pools={
        "kv": Mha(), "swa": Mha(head_dim=4), "mamba": Mamba(), "indexer": Mha(head_dim=2)})


@pytest.mark.parametrize("kv, swa, mamba, restorable", [
    (3, [1, 3], [1, 2], [1]),  # where the smaller of the longest would be 2, which no window has
    (3, [3], [2], []),
    (3, [1, 2, 3], [3], [3]),
    (2, [1, 3], [1, 3], [1]),
    (0, [1, 2], [1, 2], []),
    (6, [2, 4, 6], [4, 5], [4]),
])
def test_the_longest_prefix_is_one_that_every_pool_has(hybrid, kv, swa, mamba, restorable):
    store(hybrid, "kv", *range(1, kv + 1))
    store(hybrid, "swa", *swa)
    store(hybrid, "mamba", *mamba)
    found = hybrid.batch_exists_v2(KEYS, [window("swa"), window("mamba")])
    assert found.kv_hit_pages == max(restorable, default=0)
    assert found.restorable_prefix_pages == restorable


@pytest.mark.parametrize("swa, pages, restorable", [
    ([3, 4], 2, [4]), ([1, 2, 4], 2, [1, 2]), ([1, 3, 4], 3, [1]), ([2, 3, 4], 3, [4])])
def test_a_window_of_several_pages_is_whole_or_shorter_at_the_beginning(hybrid, swa, pages,
                                                                        restorable):
    store(hybrid, "kv", 1, 2, 3, 4)
    store(hybrid, "swa", *swa)
    found = hybrid.batch_exists_v2(KEYS, [window("swa", pages)])
    assert found.restorable_prefix_pages == restorable


def test_a_pool_that_needs_all_pages_cuts_the_prefix(hybrid):
    store(hybrid, "kv", 1, 2, 3, 4)
    store(hybrid, "indexer", 1, 2, 4)
    found = hybrid.batch_exists_v2(KEYS, [PoolTransfer("indexer", indices_from_pool="kv")])
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (2, [1, 2])


def test_a_whole_hit_is_every_pools_own(hybrid):
    store(hybrid, "kv", 1, 2)
    store(hybrid, "mamba", 2)
    found = hybrid.batch_exists_v2(KEYS[:2], [window("mamba")])
    assert (found.kv_hit_pages, found.extra_pool_hit_pages) == (2, {"mamba": 2})


def test_a_pool_is_given_no_verdict_that_the_daemon_has_not_made(hybrid):
    store(hybrid, "kv", 1, 2)
    store(hybrid, "mamba", 1)
    assert hybrid.batch_exists_v2(KEYS[:2], [window("mamba")]).extra_pool_hit_pages == {}


def test_a_pool_that_judges_for_itself_does_not_cut_the_prefix(hybrid):
    store(hybrid, "kv", 1, 2)
    blocks = PoolTransfer("blocks", keys=KEYS[:1], hit_policy=PoolHitPolicy.BLOCK_GROUPS)
    assert hybrid.batch_exists_v2(KEYS, [blocks]).kv_hit_pages == 2


@pytest.mark.parametrize("unknown", [
    PoolTransfer("never_registered"), PoolTransfer("swa", hit_policy="a policy of tomorrow")])
def test_what_is_not_known_here_counts_as_not_stored(hybrid, unknown, caplog):
    store(hybrid, "kv", 1, 2)
    assert hybrid.batch_exists_v2(KEYS, [unknown]).kv_hit_pages == 0
    assert f"pool {unknown.name}" in caplog.text


def test_an_anchor_without_bytes_leaves_it_to_the_side_pools(daemon, open_backend):
    backend = open_backend(daemon, pools={"kv": Logical(), "swa": Mha()}, is_mla_model=True)
    store(backend, "swa", 2, 3)
    found = backend.batch_exists_v2(KEYS[:4], [window("swa", 2)])
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (3, [3])
    assert backend.batch_exists_v2(KEYS, []).kv_hit_pages == len(KEYS)


def leased(daemon):
    """Leases, as the daemon counts them."""
    with kvsidecar.Client(daemon.socket) as client:
        return client.stat(kvsidecar.Stat.STATUS).result().json()["leases"]["count"]


def test_found_pages_are_held_until_they_are_read(hybrid, daemon):
    store(hybrid, "kv", 1, 2, 3)
    store(hybrid, "mamba", 3)
    assert hybrid.batch_exists_v2(KEYS[:3], [window("mamba")]).kv_hit_pages == 3
    assert leased(daemon) == 1
    hybrid.batch_get_v1(KEYS[:3], hybrid.hosts["kv"].slots(7, 8, 9))
    assert leased(daemon) == 1, "the state hasn't been read yet"
    hybrid.batch_get_v2([PoolTransfer("mamba", hybrid.hosts["mamba"].slots(7), keys=KEYS[2:3])])
    eventually(lambda: leased(daemon) == 0, "the lease has ended")


def test_asking_again_holds_pages_once(hybrid, daemon):
    store(hybrid, "kv", 1, 2, 3)
    for _ in range(5):
        assert hybrid.batch_exists(KEYS) == 3
    eventually(lambda: leased(daemon) == 1, "one lease is left")


def test_a_query_longer_than_the_daemon_takes_is_answered_for_its_beginning(daemon, open_backend):
    backend = open_backend(daemon)
    many = hashes("long", 40_000)
    pool = backend.hosts["kv"]
    assert backend.batch_set_v1(many[:3], pool.slots(1, 2, 3)) == [True] * 3
    assert backend.batch_exists(many) == 3
