# SPDX-License-Identifier: Apache-2.0
"""Goal: what goes wrong with SGLang's HF3FS backend goes right here (reference sglang.md, 3.4).

Method: a test for each weakness that another backend of this interface can have; that pipeline
stages, context ranks, models and dtypes don't share pages is in test_hicache_ranks.py and
test_hicache_identity.py, a daemon that doesn't answer in test_hicache_faults.py.
"""
import glob
import os
import signal

import pytest

import kvsidecar
from daemon import Daemon
from hicache_scene import hashes
from host_pools import Logical, Mha
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from waiting import eventually

SMALL = {"host_pool": {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"},
         "store": {"kind": "none", "root": None, "capacity_bytes": None, "segment_bytes": None}}


def pages_known(daemon):
    with kvsidecar.Client(daemon.socket) as client:
        return client.stat(kvsidecar.Stat.STATUS).result().json()["index"]["pages"]


def test_a_page_that_a_query_has_promised_is_not_given_away_before_it_is_read(tmp_path,
                                                                            open_backend):
    with Daemon(tmp_path / "node", **SMALL) as node:
        backend = open_backend(node, pools={"kv": Mha(pages=400)}, extra={"lease_s": 60})
        pool, keys = backend.hosts["kv"], hashes("promised", 3)
        want = pool.fill(1, 1, 2, 3)
        assert backend.batch_set_v1(keys, pool.slots(1, 2, 3)) == [True] * 3
        assert backend.batch_exists(keys) == 3
        for round_ in range(40):  # far more than the daemon's memory holds
            backend.batch_set_v1(hashes(f"others {round_}", 100), pool.slots(*range(10, 110)))
        assert backend.batch_get_v1(keys, pool.slots(200, 201, 202)) == [True] * 3
        assert [pool.page(number) for number in (200, 201, 202)] == want


def test_pages_that_are_evicted_under_readers_are_misses_and_never_others_bytes(tmp_path,
                                                                               open_backend):
    with Daemon(tmp_path / "node", **SMALL) as node:
        backend = open_backend(node, pools={"kv": Mha(pages=210)})
        pool = backend.hosts["kv"]
        missed, stored = 0, []
        for round_ in range(40):
            keys = hashes(f"prompt {round_}", 100)
            stored.append((keys, pool.fill(round_, *range(100))))
            assert backend.batch_set_v1(keys, pool.slots(*range(100))) == [True] * 100
            old, want = stored[max(round_ - 30, 0)]
            done = backend.batch_get_v1(old, pool.slots(*range(100, 200)))
            assert [pool.page(100 + i) for i in range(100) if done[i]] == [
                want[i] for i in range(100) if done[i]]
            missed += done.count(False)
        assert missed, "the daemon's memory was never full: the test shows nothing"


@pytest.mark.parametrize("gaps", [(0,), (1,), (2, 3, 4), (7,), (0, 2, 4, 6), range(8)])
def test_a_hole_in_a_batch_shifts_nobodys_bytes(daemon, open_backend, gaps):
    backend = open_backend(daemon, pools={"kv": Mha(pages=20)})
    pool, keys = backend.hosts["kv"], hashes("a", 8)
    want = pool.fill(1, *range(8))
    there = [i for i in range(8) if i not in gaps]
    if there:
        assert all(backend.batch_set_v1([keys[i] for i in there], pool.slots(*there)))
    left = pool.fill(2, *range(8, 16))
    assert backend.batch_get_v1(keys, pool.slots(*range(8, 16))) == [i in there for i in range(8)]
    assert [pool.page(8 + i) for i in range(8)] == [
        want[i] if i in there else left[i] for i in range(8)]


@pytest.mark.parametrize("layout", ["page_first", "page_first_direct", "layer_first"])
def test_a_set_of_k_and_v_answers_once_a_page(daemon, open_backend, layout):
    backend = open_backend(daemon, pools={"kv": Mha(layout=layout)})
    assert backend.batch_set_v1(hashes("a", 5), backend.hosts["kv"].slots(*range(5))) == [True] * 5


def test_a_side_pool_of_k_and_v_is_stored_whole(daemon, open_backend):
    pools = {"kv": Mha(), "swa": Mha(head_dim=4)}
    backend = open_backend(daemon, pools=pools)
    swa, keys = pools["swa"], hashes("a", 2)
    want = swa.fill(1, 1, 2)
    assert backend.batch_set_v2([PoolTransfer("swa", swa.slots(1, 2), keys=keys)]) == {
        "swa": [True, True]}
    assert backend.batch_get_v2([PoolTransfer("swa", swa.slots(8, 9), keys=keys)]) == {
        "swa": [True, True]}
    assert [swa.page(8), swa.page(9)] == want


def test_an_anchor_of_no_bytes_divides_nothing_by_them(daemon, open_backend):
    backend = open_backend(daemon, pools={"kv": Logical(), "swa": Mha()})
    assert backend.batch_set_v1(hashes("a", 2), backend.hosts["kv"].slots(1, 2)) == [True, True]


def test_two_writers_of_one_key_make_one_page(daemon, open_backend):
    writers = [open_backend(daemon, pools={"kv": Mha()}) for _ in range(2)]
    keys = hashes("a", 3)
    for seed, writer in enumerate(writers):
        writer.hosts["kv"].fill(seed, 1, 2, 3)
    want = [writers[0].hosts["kv"].page(number) for number in (1, 2, 3)]
    assert [writer.batch_set_v1(keys, writer.hosts["kv"].slots(1, 2, 3))
            for writer in writers] == [[True] * 3] * 2
    assert pages_known(daemon) == 3
    assert all(writers[1].batch_get_v1(keys, writers[1].hosts["kv"].slots(4, 5, 6)))
    assert [writers[1].hosts["kv"].page(number) for number in (4, 5, 6)] == want


def test_an_engine_that_ends_in_the_middle_leaves_nothing_behind(daemon, open_backend):
    """The ranks of an engine of two: one has stored its half, and both end."""
    both = [open_backend(daemon, pools={"kv": Mha()}, tp_rank=rank, tp_size=2) for rank in range(2)]
    keys, pool = hashes("a", 3), both[0].hosts["kv"]
    assert both[0].batch_set_v1(keys, pool.slots(1, 2, 3)) == [True] * 3
    for backend in both:
        backend.close()
    again = [open_backend(daemon, pools={"kv": Mha()}, tp_rank=rank, tp_size=2)
             for rank in range(2)]
    assert [backend.batch_exists(keys) for backend in again] == [0, 0]
    for seed, backend in enumerate(again):
        backend.hosts["kv"].fill(10 + seed, 1, 2, 3)
        assert backend.batch_set_v1(keys, backend.hosts["kv"].slots(1, 2, 3)) == [True] * 3
    assert [backend.batch_exists(keys) for backend in again] == [3, 3]


def test_more_new_pages_in_one_call_than_the_daemon_has_room_for_are_no_error(tmp_path,
                                                                             open_backend):
    with Daemon(tmp_path / "node", **SMALL) as node:
        count = 5000
        backend = open_backend(node, pools={"kv": Mha(pages=2), "swa": Mha(pages=count)})
        swa, keys = backend.hosts["swa"], hashes("a", count)
        want = swa.fill(1, *range(count))
        moved = [PoolTransfer("swa", swa.slots(*range(count)), keys=keys)]
        assert len(backend.batch_set_v2(moved)["swa"]) == count
        swa.fill(2, *range(count))
        got = backend.batch_get_v2(moved)["swa"]
        assert 0 < got.count(True) < count
        assert all(swa.page(i) == want[i] for i in range(count) if got[i])


def test_bytes_that_rot_on_the_store_are_a_miss_of_that_page(tmp_path, open_backend):
    with Daemon(tmp_path / "node") as node:
        backend = open_backend(node, extra={"durable": True})
        pool, keys = backend.hosts["kv"], hashes("a", 3)
        want = pool.fill(1, 1, 2, 3)
        assert backend.batch_set_v1(keys, pool.slots(1, 2, 3)) == [True] * 3
        backend.close()
        node.kill()
        node.forget_pool()
        (segment,) = [path for path in glob.glob(node.path("store") + "/**", recursive=True)
                      if os.path.isfile(path) and want[1] in open(path, "rb").read()]
        with open(segment, "r+b") as file:
            file.seek(file.read().find(want[1]) + len(want[1]) // 2)
            file.write(b"\x5a\xa5")
        node.store_was_harmed = True
        node.start()
        again = open_backend(node)
        pool = again.hosts["kv"]
        there = pool.slots(7, 8, 9)
        eventually(lambda: again.batch_get_v1(keys, there) == [True, False, True],
                   "it has read in its store")
        assert [pool.page(7), pool.page(9)] == [want[0], want[2]]


def test_signals_stay_the_engines(daemon, open_backend):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    open_backend(daemon).close()
    assert [signal.getsignal(number) for number in numbers] == before


def test_reading_a_side_pool_makes_no_copy_in_python(daemon, open_backend, monkeypatch):
    pools = {"kv": Mha(), "swa": Mha()}
    backend = open_backend(daemon, pools=pools)

    def refuse(*_, **__):
        raise AssertionError("a page was copied")

    for name in ("get_data_page", "get_dummy_flat_data_page", "set_from_flat_data_page"):
        monkeypatch.setattr(Mha, name, refuse)
    moved = [PoolTransfer("swa", pools["swa"].slots(1, 2), keys=hashes("a", 2))]
    assert backend.batch_set_v2(moved) == {"swa": [True] * 2} == backend.batch_get_v2(moved)
