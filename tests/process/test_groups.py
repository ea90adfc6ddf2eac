# SPDX-License-Identifier: Apache-2.0
"""Goal: the ranks of an engine get one answer and one page; a rank that dies takes its group's
leases and its half pages with it. (Bug reports O1-04, O2-01, O2-02.)

Method: two sessions (one of them in a process that is killed) as the ranks of a group, with pages
of one part each.
"""
import os
import signal

import pytest

import accounts
import content
from engine import Engine, fields
from kvsidecar import Coordinate, Part, Place, Status
from waiting import eventually

PART_BYTES = 65536
GROUP = bytes(range(16))


def two_parts():
    return fields(2 * PART_BYTES, tp_size=2,
                  parts=[Part(Coordinate(tp, 0, 0), PART_BYTES) for tp in range(2)])


def rank(daemon, number):
    return Engine(daemon.socket, 32, PART_BYTES, namespace=two_parts(), part=b"%d" % number,
                  attach=dict(group=GROUP, group_size=2, rank=number,
                              coordinate=Coordinate(number, 0, 0)))


@pytest.fixture
def ranks(start):
    daemon = start(limits={"parts_timeout_s": 1})
    with rank(daemon, 0) as first, rank(daemon, 1) as second:
        yield daemon, first, second


def places(engine, keys, **options):
    found = engine.lookup(keys, **options).result()
    assert found.ok, found
    return [Place(int(place)) for place in found.places]


def test_a_page_is_visible_when_all_its_parts_are_in(ranks):
    _, first, second = ranks
    keys = content.keys(range(8))
    assert set(first.check_put(keys)) == {Status.OK_PART}
    assert places(first, keys) == [Place.MISS] * 8
    assert set(second.check_get(keys)) == {Status.MISS}
    assert set(second.check_put(keys)) == {Status.OK}
    for engine in (first, second):
        assert places(engine, keys) == [Place.HOST] * 8
        assert set(engine.check_get(keys)) == {Status.OK}  # each its own part


def test_parts_that_stay_alone_are_dropped_and_can_be_put_again(ranks):
    daemon, first, second = ranks
    keys = content.keys(range(8))
    assert set(first.check_put(keys)) == {Status.OK_PART}
    eventually(lambda: accounts.status(daemon)["fillings"] == 0, "the half pages are dropped",
               pid=daemon.pid)
    assert accounts.status(daemon)["counters"]["pages_dropped_parts"] == 8
    assert set(second.check_put(keys)) == {Status.OK_PART}
    assert set(first.check_put(keys)) == {Status.OK}
    assert set(second.check_get(keys)) == {Status.OK}


def test_all_ranks_of_a_ticket_get_the_first_ones_answer(ranks):
    _, first, second = ranks
    keys = content.keys(range(16))
    for engine in (first, second):
        engine.put(keys[:10]).result()
    fixed = places(first, keys, ticket=7, lease=5)
    for engine in (first, second):  # the world goes on
        engine.put(keys[10:]).result()
    assert places(second, keys, ticket=7, lease=5) == fixed == \
        [Place.HOST] * 10 + [Place.MISS] * 6
    assert places(second, keys) == [Place.HOST] * 16


def test_a_ticket_is_bound_to_its_request(ranks):
    _, first, second = ranks
    keys = content.keys(range(4))
    assert first.lookup(keys, ticket=9).result().ok
    other = second.lookup(keys[:3], ticket=9).result()
    assert other.status == Status.INVALID and "ticket" in other.text, other


def killed_rank(daemon, do):
    """A rank 1 in a process of its own does something and is killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            do(rank(daemon, 1))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_the_death_of_a_rank_ends_the_groups_lease(start):
    daemon = start()
    keys = content.keys(range(8))
    with rank(daemon, 0) as first:
        assert set(first.check_put(keys)) == {Status.OK_PART}
        with rank(daemon, 1) as second:
            assert set(second.check_put(keys)) == {Status.OK}

        def hold(second):
            assert second.lookup(keys, lease=30).result().lease

        assert first.lookup(keys, lease=30).result().lease
        assert accounts.status(daemon)["leases"]["count"] == 1
        killed_rank(daemon, hold)
        eventually(lambda: accounts.status(daemon)["leases"]["count"] == 0, "no lease is left",
                   pid=daemon.pid)
        assert set(first.check_get(keys)) == {Status.OK}


def test_a_rank_that_dies_with_half_pages_leaves_nothing(start):
    daemon = start(limits={"parts_timeout_s": 1})
    keys = content.keys(range(8))

    def put_halves(second):
        assert set(second.check_put(keys)) == {Status.OK_PART}
        second.put(content.keys(range(100, 132)))  # and some that are being copied

    for _ in range(3):
        killed_rank(daemon, put_halves)
        eventually(lambda: accounts.status(daemon)["fillings"] == 0, "the half pages are dropped",
                   pid=daemon.pid)
    with rank(daemon, 0) as first:
        assert places(first, keys) == [Place.MISS] * 8


def test_stages_with_the_same_keys_never_see_each_others_bytes(start):
    """O1-04: another slice of the model is another namespace."""
    daemon = start()
    keys = content.keys(range(20))
    engines = [Engine(daemon.socket, 20, PART_BYTES, part=b"s%d" % slice_,
                      namespace=fields(PART_BYTES, pp_size=2, slice=slice_, slices=2))
               for slice_ in range(2)]
    for engine in engines:
        assert set(engine.check_put(keys)) == {Status.OK}
    for engine in engines:
        assert set(engine.check_get(keys)) == {Status.OK}
        engine.close()
    assert accounts.status(daemon)["index"]["pages"] == 40
