# SPDX-License-Identifier: Apache-2.0
"""Goal: a pool much smaller than what is put into it evicts or refuses item by item; what is held
by a lease stays as it is, a lease ends by its number alone, and requests that are given up leave
nothing. (Bug reports O3-10, O3-11, O3-12, O3-20, O3-21.)

Method: pools of a few pages; puts of many times as much, in batches up to more than the pool holds;
other engines that work on the same documents meanwhile.
"""
import collections
import random

import pytest

import accounts
import content
import kvsidecar
from engine import Engine, fields
from engines import EngineProcess
from kvsidecar import EventKind, Status
from waiting import eventually, readable

NO_STORE = {"kind": "none", "root": ""}
FIT = 8  # pages of BYTES that the pool has room for
BYTES = 512 * 1024
TINY = {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"}
PUT = {Status.OK, Status.BUSY}
NOT_HIS = {Status.UNKNOWN_HANDLE, Status.STALE_HANDLE, Status.EXPIRED}
GIVEN_UP = {Status.OK, Status.MISS, Status.REVOKED, Status.TIMEOUT}


def check_held(engine, keys, lease):
    """Pages of a lease are there and unchanged."""
    assert engine.check_get(keys, lease=lease) == [Status.OK] * len(keys)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_pool_of_few_pages_evicts_or_refuses_item_by_item(start, batch):
    """O3-20: with half of it leased."""
    daemon = start(host_pool=TINY, store=NO_STORE)
    with Engine(daemon.socket, 64, BYTES) as engine:
        held = content.keys(range(FIT // 2), b"held")
        assert set(engine.check_put(held)) == {Status.OK}
        found = engine.lookup(held, lease=60).result()
        assert found.lease and not found.lease_capped
        for turn in range(192 // batch):
            keys = content.keys(range(batch), b"turn%d" % turn)
            statuses = engine.check_put(keys, timeout=10)
            assert set(statuses) <= PUT and Status.OK in statuses
            got = engine.check_get(keys, timeout=10)
            assert set(got) <= {Status.OK, Status.MISS}
        check_held(engine, held, found.lease)
        assert engine.client.release(found.lease).result().ok


def test_a_batch_of_more_items_than_the_pool_holds(start):
    daemon = start(host_pool=TINY, store=NO_STORE)
    with Engine(daemon.socket, 4096, 4096) as engine:  # 16 MiB into 8
        keys = content.keys(range(4096))
        assert set(engine.check_put(keys, timeout=20)) <= PUT
        for first in range(0, 4096, 512):
            assert set(engine.check_get(keys[first:first + 512], timeout=20)) <= \
                {Status.OK, Status.MISS}
        last = content.keys(range(64), b"last")
        assert set(engine.check_put(last)) == {Status.OK}
        assert set(engine.check_get(last)) == {Status.OK}


@pytest.mark.parametrize("admission", ["at_once", "second_use", "at_eviction"])
@pytest.mark.parametrize("verify", ["store", "first", "always"])
def test_every_policy_survives_ten_times_its_pool(start, admission, verify):
    """O3-12: each value that the configuration takes is one that works."""
    daemon = start(host_pool=TINY,
                   store={"admission": admission, "verify": verify, "capacity_bytes": "32MiB",
                          "segment_bytes": "4MiB"})
    with Engine(daemon.socket, 128, 65536) as engine:
        for turn in range(10):
            keys = content.keys(range(128), b"turn%d" % turn)
            assert set(engine.check_put(keys, timeout=20)) <= PUT
            engine.check_get(keys[:32], timeout=20)  # a second use
        last = content.keys(range(16), b"last")
        eventually(lambda: set(engine.check_put(last)) <= {Status.OK, Status.EXISTS}, "room",
                   pid=daemon.pid)
        assert set(engine.check_get(last)) == {Status.OK}
    now = accounts.status(daemon)
    assert now["host_pool"]["page_bytes"] <= 8 << 20
    assert now["segments"]["bytes"] <= 32 << 20


def test_leased_pages_stay_as_they_are_while_others_put_and_load(start):
    """O3-21."""
    daemon = start(host_pool={"bytes": "16MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"},
                   store=NO_STORE)
    others = [EngineProcess(daemon.socket).wait_ready() for _ in range(3)]
    with Engine(daemon.socket, 96) as engine:
        hot = content.keys(range(96), b"hot")
        assert set(engine.check_put(hot)) == {Status.OK}
        lease = engine.lookup(hot, lease=60).result().lease
        assert lease
        for number, other in enumerate(others):
            other.begin("work", number, 60)  # documents of more than what is left
        for _ in range(60):
            check_held(engine, hot, lease)
            for other in others:
                other.progress(other.drop_lines())
        for other in others:
            other.begin("connects")
            assert other.answer()["wrong"] == 0 and other.answer() == 1
            assert other.end() == 0
        check_held(engine, hot, lease)
        assert engine.client.release(lease).result().ok
    assert accounts.status(daemon)["counters"]["pages_evicted"] > 0


def test_a_lease_ends_by_its_number_alone_and_by_no_strangers(start):
    """O3-11: whatever the namespace it was taken in."""
    daemon = start(host_pool=TINY, store=NO_STORE)
    salted = fields(BYTES, tenant_salt="tenant")
    with Engine(daemon.socket, 64, BYTES, namespace=salted) as engine, \
            kvsidecar.Client(daemon.socket) as stranger:
        keys = content.keys(range(FIT // 2))
        assert set(engine.check_put(keys)) == {Status.OK}
        lease = engine.lookup(keys, lease=60).result().lease
        for foreign in (lease, lease + 1, 1 << 63):
            assert stranger.release(foreign).result().status in NOT_HIS
        assert accounts.status(daemon)["leases"]["pages"] == FIT // 2
        check_held(engine, keys, lease)
        assert engine.client.release(lease).result().ok
        assert accounts.status(daemon)["leases"] == {"count": 0, "pages": 0}
        for turn in range(8):  # all can be evicted now
            more = content.keys(range(FIT), b"more%d" % turn)
            assert set(engine.check_put(more, timeout=10)) == {Status.OK}
        assert set(engine.check_get(keys)) == {Status.MISS}


def test_gets_that_are_given_up_end_once_and_leave_nothing(start):
    """O3-10."""
    daemon = start()
    chance = random.Random(1)
    ends = collections.Counter()
    with Engine(daemon.socket, 64) as engine:
        keys = content.keys(range(64))
        assert engine.put(keys, timeout=10).result().succeeded == 64
        engine.client.fileno()  # from now on ends are told as events
        ops = []
        for _ in range(3000):
            first = chance.randrange(60)
            op = engine.client.get(engine.space, keys[first:first + 4], engine.layout,
                                   range(first, first + 4), timeout=10)
            ops.append(op)
            if chance.random() < 0.5:
                readable([engine.client.fileno()], chance.random() * 0.0005)
            op.cancel()
            count_ends(engine.client, ends)
        eventually(lambda: count_ends(engine.client, ends) or sum(ends.values()) >= len(ops),
                   "all have ended", pid=daemon.pid)
        assert set(ends.values()) == {1} and len(ends) == len(ops)
        for op in ops:
            assert {Status(int(item)) for item in op.result().items} <= GIVEN_UP
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
        now = accounts.status(daemon)
        assert not now["leases"]["count"] and not now["fillings"] and not now["fetches"]


def count_ends(client, ends):
    for event in client.poll():
        if event.kind == EventKind.FINISHED:
            ends[event.op.id] += 1
