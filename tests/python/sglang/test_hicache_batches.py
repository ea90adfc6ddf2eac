# SPDX-License-Identifier: Apache-2.0
"""Goal: batches of any size and with any keys, also while others store what is being read, bring
whole pages or none (O1-09, O1-10, O4-04).

Method: batches beyond what one request to the daemon holds, keys that come twice, pages that are
too large, and pages of two writers that are read while they come.
"""
import threading

import pytest

from daemon import Daemon
from hicache_scene import hashes
from host_pools import Indexer, Mha
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from waiting import eventually

SMALL = {"host_pool": {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"}}
ALLOCATORS = pytest.mark.parametrize("allocator", ["shm", "default"])


@ALLOCATORS
def test_thousands_of_pages_in_one_call_come_back_into_their_slots(daemon, open_backend, allocator):
    count = 3000
    pools = {"kv": Mha(pages=2), "indexer": Indexer(allocator, pages=count)}
    backend, side = open_backend(daemon, pools=pools), pools["indexer"]
    keys = hashes("a", count)
    want = side.fill(1, *range(count))
    moved = [PoolTransfer("indexer", side.slots(*range(count)), keys=keys)]
    assert backend.batch_set_v2(moved) == {"indexer": [True] * count}
    side.fill(2, *range(count))
    back = [PoolTransfer("indexer", side.slots(*reversed(range(count))), keys=keys)]
    assert backend.batch_get_v2(back) == {"indexer": [True] * count}
    assert [side.page(count - 1 - number) for number in range(count)] == want
    trailing = [PoolTransfer("indexer", indices_from_pool="kv")]
    assert backend.batch_exists_v2(keys, trailing).kv_hit_pages == 0, "no KV, no hit"


@ALLOCATORS
def test_a_key_that_comes_twice_in_a_batch_has_one_page_and_reaches_both_slots(daemon, open_backend,
                                                                               allocator):
    backend = open_backend(daemon, pools={"kv": Mha(allocator)})
    pool, (first, second) = backend.hosts["kv"], hashes("a", 2)
    want = pool.fill(1, 1, 2, 3)
    assert backend.batch_set_v1([first, first, second], pool.slots(1, 2, 3)) == [True] * 3
    assert backend.batch_get_v1([first, first, second, first], pool.slots(5, 6, 7, 8)) == [True] * 4
    assert pool.page(5) == pool.page(6) == pool.page(8) and pool.page(5) in want[:2]
    assert pool.page(7) == want[2]


@ALLOCATORS
def test_the_first_and_the_last_page_of_a_pool_are_served_within_its_memory(daemon, open_backend,
                                                                            allocator):
    pool = Mha(allocator)
    backend = open_backend(daemon, pools={"kv": pool})
    ends, keys = (0, pool.pages - 1), hashes("a", 2)
    want = pool.fill(1, *ends)
    assert backend.batch_set_v1(keys, pool.slots(*ends)) == [True] * 2
    pool.fill(2, *range(pool.pages))
    between = [pool.page(number) for number in range(1, pool.pages - 1)]
    assert backend.batch_get_v1(keys, pool.slots(*ends)) == [True] * 2
    assert [pool.page(number) for number in ends] == want
    assert [pool.page(number) for number in range(1, pool.pages - 1)] == between


def test_pages_that_are_read_while_they_are_stored_are_whole_or_missing(daemon, open_backend):
    count = 60
    writer, reader = (open_backend(daemon, pools={"kv": Mha(pages=count, head_dim=512)})
                      for _ in range(2))
    here, there, keys = writer.hosts["kv"], reader.hosts["kv"], hashes("a", count)
    want = here.fill(1, *range(count))
    wrong, all_there = [], threading.Event()

    def read():
        while not all_there.is_set():
            got = reader.batch_get_v1(keys, there.slots(*range(count)))
            wrong.extend(i for i in range(count) if got[i] and there.page(i) != want[i])
            if all(got):
                all_there.set()

    thread = threading.Thread(target=read)
    thread.start()
    for at in range(0, count, 5):
        assert all(writer.batch_set_v1(keys[at:at + 5], here.slots(*range(at, at + 5))))
    eventually(all_there.is_set, "all of them are read")
    thread.join()
    assert not wrong


def test_a_page_that_is_larger_than_the_daemon_takes_is_refused_with_its_remedy(
        tmp_path, open_backend, caplog):
    with Daemon(tmp_path / "node", **SMALL) as node:
        backend = open_backend(node, pools={"kv": Mha(pages=3, head_dim=98304)})
        pool = backend.hosts["kv"]
        assert backend.batch_set_v1(hashes("a", 1), pool.slots(1)) == [False]
        assert f"page_bytes {pool.page_bytes}" in caplog.text
        assert "raise host_pool.chunk_bytes" in caplog.text


def test_a_page_that_is_larger_than_the_staging_area_is_refused_with_its_remedy(
        daemon, open_backend, caplog):
    pool = Mha("default", pages=3, head_dim=32768)
    backend = open_backend(daemon, pools={"kv": pool}, extra={"staging_mib": 2})
    assert backend.batch_set_v1(hashes("a", 1), pool.slots(1)) == [False]
    assert f"pages of {pool.page_bytes} bytes and staging_mib is 2" in caplog.text
    assert "set staging_mib to 3 or more" in caplog.text
    larger = open_backend(daemon, pools={"kv": pool}, extra={"staging_mib": 3})
    assert larger.batch_set_v1(hashes("a", 1), pool.slots(1)) == [True]


def test_split_heads_share_the_staging_area_page_by_page(daemon, open_backend):
    """Each share of a page is staged by itself."""
    pool = Mha("default", pages=3, head_dim=32768, layout="page_head")
    backend = open_backend(daemon, pools={"kv": pool}, extra={"staging_mib": 2}, tp_lcm_size=2,
                           should_split_heads=True)
    want = pool.fill(1, 1)
    assert backend.batch_set_v1(hashes("a", 1), pool.slots(1)) == [True]
    assert backend.batch_get_v1(hashes("a", 1), pool.slots(2)) == [True]
    assert [pool.page(2)] == want
