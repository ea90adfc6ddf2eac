# SPDX-License-Identifier: Apache-2.0
"""Goal: a daemon that stands still in the middle of copies and goes on later changes no byte of a
block that was given to somebody else, and makes no page of bytes that changed under the copy.
(Bug reports O1-12, O1-20, O2-03.)

Method: SIGSTOP while puts and gets are being copied. The client passes its deadline and writes
other data into each block that is its own again; the stop then lasts longer than every time limit
of the daemon's configuration; then SIGCONT. Which state each item was caught in is the scheduler's
to say: an attempt is repeated until it has caught what the test is about.
"""
import numpy as np
import pytest

import accounts
import content
import kvsidecar
from claims import Claims
from engine import Engine
from kvsidecar import EventKind, Run, Status
from waiting import eventually, readable

PAGE_BYTES = 512 * 1024
PAGES = 64  # 32 MiB: a copy long enough to be caught in
FILLER = 0x5A
ATTEMPTS = 40
GIVEN_UP = {Status.TIMEOUT, Status.ABANDONED, Status.REVOKED}
POOL = {"host_pool": {"bytes": "128MiB"}, "copy": {"threads": 1, "inline_bytes": 0},
        "store": {"stall_ms": 2000},
        "limits": {"parts_timeout_s": 2, "lease_ms_max": 2000, "deadline_max_s": 20}}
LONGER_S = 2.2  # than these


def outlast(engine):
    """Lets every time limit pass: the end of a request that the daemon doesn't see tells so."""
    assert engine.client.stat(timeout=LONGER_S).result().status == Status.TIMEOUT


def caught_put(daemon, engine, attempt):
    """A put that was stopped in its middle: keys and the statuses that it ended with."""
    keys = content.keys(range(PAGES), b"put%d" % attempt)
    op = engine.put(keys, timeout=0.15)
    Claims().wait_for_copy(op)
    daemon.pause()
    result = op.result()
    return keys, [Status(int(item)) for item in result.items]


def check_stored(engine, keys, statuses):
    """What is there is whole. TIMEOUT may also be a copy that had ended before the stop and wasn't
    answered: such a page may be there, and none of it is the filler."""
    found = engine.lookup(keys, timeout=10).result()
    assert found.ok
    there = [i for i in range(PAGES) if found.places[i] != kvsidecar.Place.MISS]
    assert [i for i in there if statuses[i] == Status.ABANDONED] == []
    assert [i for i in range(PAGES) if statuses[i] == Status.OK and i not in there] == []
    if there:
        assert set(engine.check_get([keys[i] for i in there], timeout=10)) == {Status.OK}


def test_a_put_whose_blocks_were_given_away_stores_nothing(start):
    daemon = start(**POOL)
    seen = set()
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        for attempt in range(ATTEMPTS):
            keys, statuses = caught_put(daemon, engine, attempt)
            for block, status in enumerate(statuses):
                if status in GIVEN_UP:
                    engine.view[:, block] = FILLER
            if Status.ABANDONED in statuses:
                outlast(engine)
            daemon.resume()
            check_stored(engine, keys, statuses)
            # And when the copies that were caught have ended.
            eventually(lambda: accounts.status(daemon)["fillings"] == 0, "the copies have ended",
                       pid=daemon.pid)
            check_stored(engine, keys, statuses)
            seen |= set(statuses)
            if {Status.ABANDONED, Status.TIMEOUT} <= seen:
                break
        assert {Status.ABANDONED, Status.TIMEOUT} <= seen, seen
        # The same pages can be put again.
        assert set(engine.check_put(keys, timeout=10)) <= {Status.OK, Status.EXISTS}
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}


def stored_pages(engine):
    keys = content.keys(range(PAGES))
    assert engine.put(keys, timeout=10).result().succeeded == PAGES
    return keys


def test_a_get_gives_blocks_back_or_keeps_them_until_it_settles(start):
    daemon = start(**POOL)
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        keys = stored_pages(engine)
        claims = Claims()
        for _ in range(ATTEMPTS):
            op = engine.get(keys, timeout=0.15)
            claims.wait_for_copy(op)
            daemon.pause()
            if EventKind.OVERDUE in events_until_end_or_overdue(engine.client, op):
                break
            op.result()
            daemon.resume()
        else:
            pytest.fail("no get was caught in its copy")
        assert not op.finished  # COPYING: the request waits, nobody else does
        free = op.revoke(range(PAGES))
        given = [block for block in range(PAGES) if free[block]]
        before = engine.view.copy()
        for block in given:
            engine.view[:, block] = FILLER
        outlast(engine)
        assert not op.finished
        daemon.resume()
        result = op.result()
        for block in range(PAGES):
            if result.items[block] == Status.OK:
                assert engine.is_page(block, keys[block])
            elif free[block]:
                assert (engine.view[:, block] == FILLER).all(), block
        assert not all(free), "an overdue get has an item that is being copied"
        for block in range(PAGES):
            if free[block] and result.items[block] == Status.OK:  # it had ended before the stop
                assert np.array_equal(before[:, block], engine.view[:, block])


@pytest.mark.parametrize("way", ["put", "get"])
def test_staged_memory_is_the_engines_at_once(start, way):
    """Memory that the daemon never sees: nothing of it is overdue, and nothing is written late."""
    daemon = start(**POOL)
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        keys = stored_pages(engine)
        own = np.zeros(PAGES * PAGE_BYTES, dtype=np.uint8)
        region = engine.client.register_staged(own)
        layout = engine.client.register_layout(
            PAGES, [Run(region, 0, PAGE_BYTES, PAGE_BYTES)], timeout=10)
        assert layout.ok
        if way == "put":
            keys = content.keys(range(PAGES), b"staged")
        begin = engine.client.put if way == "put" else engine.client.get
        op = begin(engine.space, keys, layout, range(PAGES), timeout=0.15)
        Claims().wait_for_copy(op)
        daemon.pause()
        result = op.result()
        late = [i for i in range(PAGES) if result.items[i] in GIVEN_UP]
        own[:] = FILLER
        daemon.resume()
        assert engine.client.stat(timeout=10).result().ok
        assert (own == FILLER).all()
        if way == "put":  # what is there is what was in the blocks at the call: zeros
            got = engine.client.get(engine.space, keys, layout, range(PAGES), timeout=10).result()
            blocks = own.reshape(PAGES, PAGE_BYTES)
            for i in range(PAGES):
                if got.items[i] == Status.OK:
                    assert not blocks[i].any(), (i, late)
                else:
                    assert (blocks[i] == FILLER).all() and i in late
        layout.release(10)
        assert region.release(10) == Status.OK


def events_until_end_or_overdue(client, op):
    seen = []

    def look():
        if readable([client.fileno()], 0.05):
            seen.extend(event.kind for event in client.poll() if event.op is op)
        return seen or (op.finished and [EventKind.FINISHED])

    return eventually(look, "the operation has ended or is overdue", seconds=10)


@pytest.mark.parametrize("stopped_for", ["put", "get"])
def test_other_calls_of_a_stopped_daemon_end_in_time(start, stopped_for):
    """O2-03: nothing blocks without limit, and late answers are dropped."""
    daemon = start(**POOL)
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        keys = stored_pages(engine)
        daemon.pause()
        begin = engine.get if stopped_for == "get" else engine.put
        ops = [begin(keys, timeout=0.2), engine.lookup(keys, timeout=0.2),
               engine.client.delete(engine.space, keys[:1], timeout=0.2),
               engine.client.clear(engine.space, timeout=0.2),
               engine.client.stat(timeout=0.2), engine.client.why(keys[0], timeout=0.2)]
        for op in ops:
            result = op.result()
            assert result.status in GIVEN_UP or (not result.ok or set(result.items) <= GIVEN_UP)
        with pytest.raises(kvsidecar.OpenFailed):
            kvsidecar.Client(daemon.socket, connect_timeout=0.2)
        daemon.resume()
        assert engine.client.stat(timeout=10).result().ok
        accounts.check_sums(accounts.status(daemon)["counters"])
