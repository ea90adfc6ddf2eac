# SPDX-License-Identifier: Apache-2.0
"""Goal: a pool in which everything is held refuses, item by item and at once, and goes on when
something is let go; what a lookup says holds nobody up. (Bug reports O2-06, O2-07, O2-08, O2-12.)

Method: a pool of a few pages, all of them leased, before a store that has more; counters tell what
was read, taken and evicted.
"""

import pytest

import accounts
import content
from engine import Engine, fields
from kvsidecar import Coordinate, Part, Place, Status
from waiting import eventually

OLD = 4  # pages of the store
MANY = 16  # more than the pool has room for
BYTES = 1176 * 1024  # six of them can be leased before the share of the pool ends it
TINY = {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"}
ALL = {"leases_percent": 90}
GROUP = bytes(range(16))


@pytest.fixture
def tiny(start):
    """A daemon whose store has `old` and whose pool is empty."""
    daemon = start(host_pool=TINY, limits=ALL)
    old = content.keys(range(OLD), b"old")
    with Engine(daemon.socket, OLD, BYTES) as engine:
        assert set(engine.check_put(old, durable=True, timeout=20)) == {Status.OK}
    accounts.restart_with_store_only(daemon)
    with Engine(daemon.socket, MANY, BYTES) as engine:
        assert set(engine.lookup(old).result().places) == {Place.STORE}
        yield daemon, engine, old


def counters(daemon):
    return accounts.status(daemon)["counters"]


def fill_with_leases(engine):
    """Puts pages and leases each, until there is room for no further one: (keys, leases). They are
    stored when this returns: what is being written can't be evicted, whoever has let go of it."""
    held, leases = [], []
    for key in content.keys(range(MANY), b"held"):
        status, = engine.check_put([key], durable=True, timeout=20)
        if status == Status.BUSY:
            return held, leases
        assert status == Status.OK
        found = engine.lookup([key], lease=60).result()
        assert found.lease and not found.lease_capped, found
        held.append(key)
        leases.append(found.lease)
    raise AssertionError("the pool has room for all of them")


def let_go(engine, leases):
    for lease in leases:
        assert engine.client.release(lease).result().ok


def test_with_every_page_leased_puts_and_loads_are_refused_and_go_on_later(tiny):
    """O2-06: and nothing turns in circles meanwhile: no try is made that was not asked for."""
    daemon, engine, old = tiny
    held, leases = fill_with_leases(engine)
    more = content.keys(range(2), b"more")
    before = counters(daemon)["busy_no_slot"]
    assert engine.check_put(more) == [Status.BUSY, Status.BUSY]
    assert engine.check_get(old[:2]) == [Status.BUSY, Status.BUSY]
    assert counters(daemon)["busy_no_slot"] == before + 4
    assert set(engine.check_get(held)) == {Status.OK}
    let_go(engine, leases[:1])
    assert engine.check_put(more[:1]) == [Status.OK]
    assert set(engine.check_get(held[1:])) == {Status.OK}
    let_go(engine, leases[1:])
    assert engine.check_get(old[:2]) == [Status.OK, Status.OK]


def test_lookups_that_find_nothing_take_and_evict_nothing(tiny):
    """O2-07: also with a prefetch and a lease asked for, and the hits beside them are served."""
    daemon, engine, _ = tiny
    hot = content.keys(range(4), b"hot")
    assert set(engine.check_put(hot, durable=True, timeout=20)) == {Status.OK}
    before = accounts.status(daemon)
    lookups = []
    for turn in range(200):
        keys = content.keys(range(64), b"nobody%d" % turn)
        lookups.append(engine.lookup(keys, prefetch=True, lease=30))
        if turn % 20 == 0:
            assert set(engine.check_get(hot)) == {Status.OK}
    for op in lookups:
        found = op.result()
        assert found.ok and found.longest == 0 and not found.lease and not found.lease_capped
    after = accounts.status(daemon)
    assert after["host_pool"] == before["host_pool"]
    assert after["leases"] == {"count": 0, "pages": 0} and after["fetches"] == 0
    for name in ("store_reads", "pages_prefetched", "pages_evicted", "busy_no_slot"):
        assert after["counters"][name] == before["counters"][name], name


def test_a_lookup_that_is_given_up_leaves_nothing(tiny):
    """O2-07: cancelled lookups."""
    daemon, engine, old = tiny
    for _ in range(50):
        op = engine.lookup(content.keys(range(64), b"nobody"), prefetch=True, lease=30)
        op.cancel()
        op.result()
    assert accounts.status(daemon)["leases"] == {"count": 0, "pages": 0}
    assert counters(daemon)["store_reads"] == 0
    assert engine.check_get(old[:1]) == [Status.OK]


def test_a_prefetch_that_is_refused_is_waited_for_by_nobody(tiny):
    """O2-08: by a full pool; the load that follows is answered at once and by its items."""
    daemon, engine, old = tiny
    _, leases = fill_with_leases(engine)
    found = engine.lookup(old, prefetch=True).result()
    assert found.ok and set(found.places) == {Place.STORE}
    now = accounts.status(daemon)
    assert now["fetches"] == now["counters"]["pages_prefetched"] == 0
    assert set(engine.check_get(old)) == {Status.BUSY}
    let_go(engine, leases)
    assert engine.check_get(old[:1]) == [Status.OK]


def test_a_prefetch_without_the_lease_it_was_to_have_is_said_and_not_begun(start):
    """O2-08: by a limit."""
    daemon = start(host_pool=TINY, limits={"leases_per_session": 2})
    old = content.keys(range(OLD), b"old")
    with Engine(daemon.socket, OLD, BYTES) as engine:
        for turn in range(4):  # more than the pool has room for
            keys = old if turn == 0 else content.keys(range(OLD), b"new%d" % turn)
            assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
        assert Place.STORE in set(engine.lookup(old).result().places)
        found = engine.lookup(old, prefetch=True, lease=30).result()
        assert found.lease_capped and not found.lease and found.longest == OLD
        now = accounts.status(daemon)
        assert now["fetches"] == 0 and now["counters"]["store_reads"] == 0
        assert engine.check_get(old[:1]) == [Status.OK]


def rank(daemon, number):
    parts = [Part(Coordinate(tp, 0, 0), BYTES // 4) for tp in range(4)]
    return Engine(daemon.socket, OLD, BYTES // 4, part=b"%d" % number,
                  namespace=fields(BYTES, tp_size=4, parts=parts),
                  attach=dict(group=GROUP, group_size=4, rank=number,
                              coordinate=Coordinate(number, 0, 0)))


@pytest.mark.parametrize("pressure", [False, True], ids=["calm", "with eviction"])
def test_a_lease_that_has_run_out_costs_its_hold_and_no_request(start, pressure):
    """O2-12: each of four ranks is still served what is there, and told what has gone."""
    daemon = start(host_pool=TINY, store={"kind": "none", "root": ""}, limits=ALL)
    keys = content.keys(range(2))
    ranks = [rank(daemon, number) for number in range(4)]
    try:
        for engine in ranks:
            engine.check_put(keys)
        lease = ranks[0].lookup(keys, lease=0.05).result().lease
        assert lease
        eventually(lambda: accounts.status(daemon)["leases"]["count"] == 0, "the lease has ended",
                   pid=daemon.pid)
        if pressure:
            with Engine(daemon.socket, OLD, BYTES, model="other") as other:
                for turn in range(8):
                    other.check_put(content.keys(range(OLD), b"%d" % turn), timeout=10)
        wanted = {Status.MISS} if pressure else {Status.OK}
        for engine in ranks:
            assert set(engine.check_get(keys, lease=lease)) == wanted
        assert accounts.status(daemon)["leases"] == {"count": 0, "pages": 0}
    finally:
        for engine in ranks:
            engine.close()
