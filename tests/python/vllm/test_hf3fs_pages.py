# SPDX-License-Identifier: Apache-2.0
"""Goal: what vLLM's HF3FS connector and its metadata server do wrong with pages can't happen here.

Method: each known defect and each test of its metadata server, put to a real daemon through the
Python client; the defects are numbered 1 to 11 as below. Of them
  1-4    metadata: here,
  5      a failed load taken for a good one: here for the client, and with a real engine in
         tests/engines/vllm/test_failed_loads.py and unit/test_schedules.py,
  6, 7   abort during a load, preemption, block lists of resumed requests:
         tests/engines/vllm/unit/test_schedules.py and test_requests.py,
  8      loads that don't wait for the engine: here; on a CPU no kernel runs behind a hook's back,
  9      keys without model, layout, adapter, salt, image: test_vllm_identity.py,
         tests/engines/vllm/unit/test_block_hashes.py; replicas and stages: test_vllm_identity.py,
  10     signal handlers, calls without a limit, one user's failure that closes another's client:
         test_hf3fs_clients.py; a prompt that is hashed anew all the time:
         tests/engines/vllm/unit/test_sharing.py. A server's address can't be ignored because there
         is no server: the daemon's socket is the only one,
  11     shapes taken for granted: test_vllm_layout.py.
"""
import numpy
import pytest

import kvsidecar
from kvsidecar import Coordinate, Part, Status
from daemon import Daemon
from scene import PAGE_BYTES, Engine, fields, random_keys
from waiting import eventually

TWO = dict(tp_size=2, parts=[Part(Coordinate(0), PAGE_BYTES), Part(Coordinate(1), PAGE_BYTES)])


def counts(client):
    return client.stat().result().json()


def statuses(op):
    return [Status(item) for item in op.result().items]


class Rank(Engine):
    """One rank of two: part r of each page."""

    def __init__(self, client, rank, pages=4, seed=1, **changed):
        self.rank = rank
        super().__init__(client, pages, seed=seed * 2 + rank, **{**TWO, **changed})
        self.namespace = client.attach(fields(**{**TWO, **changed}), coordinate=Coordinate(rank))
        self.keys = random_keys(pages, seed)

    def found(self):
        return self.client.lookup(self.keys, self.namespace).result().longest


# Defect 1: a failed write of a batch that also has a complete key gives that key's page away.

def test_a_failed_write_leaves_the_pages_that_were_there(client):
    engine = Engine(client, 8)
    assert engine.put().result().succeeded == 8
    fence = client.create_fence()  # never signalled: new pages of the batch fail
    more = random_keys(8, seed=2)
    mixed = numpy.concatenate([engine.keys[:4], more[:4]])
    failed = client.put(engine.namespace, mixed, engine.layout, engine.from_blocks, fence=fence,
                        fence_value=1, timeout=0.05)
    assert set(statuses(failed)[:4]) <= {Status.EXISTS, Status.TIMEOUT}
    assert statuses(failed)[4:] == [Status.TIMEOUT] * 4
    other = Engine(client, 64, seed=3)  # would take a page that had been given away
    assert other.put().result().succeeded == 64
    assert engine.get().result().succeeded == 8 and engine.loaded_bytes_are_right()
    assert client.lookup(more, engine.namespace).result().longest == 0


# Defect 2: who is first before the other rank is known makes a page "complete" with one part.

def test_a_page_is_complete_when_all_declared_ranks_have_written(daemon):
    with kvsidecar.Client(daemon.socket) as one, kvsidecar.Client(daemon.socket) as two:
        first = Rank(one, 0)
        assert statuses(first.put()) == [Status.OK_PART] * 4
        assert first.found() == 0
        assert set(statuses(first.get())) == {Status.MISS}
        second = Rank(two, 1)  # comes only now
        assert statuses(second.put()) == [Status.OK] * 4
        for rank in (first, second):
            assert rank.found() == 4
            assert rank.get().result().succeeded == 4 and rank.loaded_bytes_are_right()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_rank_gets_its_own_part_whoever_was_first(client, order):
    ranks = {rank: Rank(client, rank) for rank in order}
    for rank in order:
        ranks[rank].put().wait()
    for rank in ranks.values():
        assert rank.get().result().succeeded == 4 and rank.loaded_bytes_are_right()


def test_a_rank_that_is_not_declared_has_no_part(client):
    third = client.attach(fields(**TWO), coordinate=Coordinate(2))
    assert not third.ok and third.status == Status.INVALID


# Defect 3: the same rank saving an incomplete key twice leaks a page; one missing free page fails a
# batch whose other keys are hits; nothing is ever evicted.

def test_a_part_that_is_written_twice_takes_one_page(client):
    rank = Rank(client, 0, pages=16)
    assert statuses(rank.put()) == [Status.OK_PART] * 16
    taken = counts(client)["host_pool"]
    for _ in range(5):
        assert set(statuses(rank.put())) <= {Status.OK_PART, Status.EXISTS}
    again = counts(client)["host_pool"]
    assert (again["slots_filling"], again["slots_free"], again["spans_empty"]) == (
        taken["slots_filling"], taken["slots_free"], taken["spans_empty"])


@pytest.fixture
def small(library, tmp_path):
    """A daemon without a store whose pool holds some 2,000 pages."""
    pool, store = {"bytes": "32MiB"}, {"kind": "none", "root": ""}
    with Daemon(tmp_path, host_pool=pool, store=store) as found:
        with kvsidecar.Client(found.socket) as client:
            yield client


def test_a_full_pool_makes_room_for_ever(small):
    engine = Engine(small, 512)
    for seed in range(8):  # twice what fits
        engine.keys = random_keys(512, seed)
        assert engine.put().result().succeeded == 512
    assert engine.get().result().succeeded == 512 and engine.loaded_bytes_are_right()
    assert counts(small)["counters"]["pages_evicted"] > 0


def test_hits_of_a_batch_count_though_its_other_keys_find_no_room(small):
    """Room is short because other writes wait for their engine."""
    engine, fence = Engine(small, 512), small.create_fence()
    engine.put().wait()
    waiting = []
    for seed in range(10, 14):
        other = random_keys(512, seed)
        waiting.append(small.put(engine.namespace, other, engine.layout, engine.from_blocks,
                                 fence=fence, fence_value=1, timeout=30))
    mixed = numpy.concatenate([engine.keys[:256], random_keys(256, seed=9)])
    result = small.put(engine.namespace, mixed, engine.layout, engine.from_blocks).result()
    there = small.lookup(engine.keys[:256], engine.namespace).result()
    assert set(result.items) <= {Status.EXISTS, Status.OK, Status.BUSY}
    assert there.longest == 256 and set(result.items[:256]) <= {Status.EXISTS, Status.OK}
    fence.signal(1)
    for op in waiting:
        assert set(statuses(op)) <= {Status.OK, Status.BUSY}


# Defect 4: pages that were allocated and never confirmed are lost.

@pytest.mark.parametrize("how", ["deadline", "cancelled", "dropped", "engine gone"])
def test_room_of_writes_that_came_to_nothing_comes_back(daemon, client, how):
    engine = Engine(client, 32)
    engine.put().wait()
    before = counts(client)
    other = kvsidecar.Client(daemon.socket)
    writer = Engine(other, 32, seed=5)
    fence = other.create_fence()
    for _ in range(4):
        op = writer.put(fence=fence, fence_value=1, timeout=0.05 if how == "deadline" else 30)
        if how == "deadline":
            assert set(statuses(op)) == {Status.TIMEOUT}
        elif how == "cancelled":
            assert op.cancel().all()
        del op
    other.close()

    def back():
        now = counts(client)
        return all(now["host_pool"][name] == before["host_pool"][name] for name in (
            "slots_filling", "slots_full", "slots_quarantined")) and now["fillings"] == 0

    eventually(back, "the room has come back")


# Defect 5: a load that failed counts as one that loaded.

def test_a_page_that_is_not_there_is_told_and_its_block_left_alone(client):
    engine = Engine(client, 8)
    client.put(engine.namespace, engine.keys[:5], engine.layout, engine.from_blocks[:5]).wait()
    engine.bytes()[8:] = 7
    assert statuses(engine.get()) == [Status.OK] * 5 + [Status.MISS] * 3
    assert (engine.bytes()[8:13] == engine.bytes()[:5]).all()
    assert (engine.bytes()[13:] == 7).all()


# Defect 8: a load writes into blocks that the engine still reads.

def test_a_load_waits_for_the_engine(client):
    engine = Engine(client, 4)
    engine.put().wait()
    fence = client.create_fence()
    engine.bytes()[4:] = 7
    op = engine.get(fence=fence, fence_value=1, timeout=30)
    assert not op.wait(0.05) and (engine.bytes()[4:] == 7).all()
    fence.signal(1)
    assert op.result().succeeded == 4 and engine.loaded_bytes_are_right()


# The tests of the metadata server, as far as the above isn't them.

def test_what_was_not_attached_can_be_neither_written_nor_read(client):
    """An uninitialized rank."""
    engine = Engine(client, 2)
    engine.namespace.detach()
    for call in (engine.put, engine.get):
        with pytest.raises(kvsidecar.Misuse):
            call()


def test_writing_what_is_there_takes_no_room(client):
    """A cache hit doesn't leak pages; all hits free all slots."""
    engine = Engine(client, 32)
    engine.put().wait()
    before = counts(client)["host_pool"]
    for _ in range(5):
        assert set(statuses(engine.put())) == {Status.EXISTS}
    after = counts(client)["host_pool"]
    assert (after["slots_full"], after["slots_filling"]) == (32, 0)
    assert after["slots_free"] == before["slots_free"]


def test_deleting_gives_the_room_back_once(client):
    """Released pages are there again, and none twice."""
    engine = Engine(client, 32)
    engine.put().wait()
    for _ in range(3):
        client.delete(engine.namespace, engine.keys).wait()
    eventually(lambda: counts(client)["host_pool"]["slots_full"] == 0, "the pages have gone")
    pool = counts(client)["host_pool"]
    again = Engine(client, 300, seed=8)
    assert again.put().result().succeeded == 300
    assert again.get().result().succeeded == 300 and again.loaded_bytes_are_right()
    now = counts(client)["host_pool"]
    assert now["slots_full"] == 300
    assert pool["slots_quarantined"] == now["slots_quarantined"] == 0
