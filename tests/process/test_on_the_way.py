# SPDX-License-Identifier: Apache-2.0
"""Goal: a page on its way to the store is whole for whoever loads it or isn't there; what was
deleted on the way doesn't come back, and what took its place is itself. (Bug reports O1-09, O1-16.)

Method: a pool of a few pages, so that pages leave it while their like are being written and are
read back at once; and a store that may write so slowly that whole batches wait in its queue.
"""

import accounts
import content
from engine import Engine
from kvsidecar import Place, Status
from waiting import eventually

TINY = {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"}
BYTES = 512 * 1024
READ = {Status.OK, Status.MISS, Status.BUSY}
PUT = {Status.OK, Status.BUSY}


def test_pages_that_are_being_written_are_read_whole_or_not_at_all(start):
    """O1-09."""
    daemon = start(host_pool=TINY)
    seen = set()
    with Engine(daemon.socket, 8, BYTES) as writer:
        readers = [Engine(daemon.socket, 8, BYTES) for _ in range(4)]
        for turn in range(16):
            keys = content.keys(range(turn * 8, turn * 8 + 8))
            put = writer.put(keys, timeout=20)
            gets = []
            while not put.finished or len(gets) < 8:  # while it is copied, written and evicted
                reader = readers[len(gets) % 4]
                result = reader.get(keys, timeout=20).result()
                assert reader.wrong(keys, result) == []
                seen |= set(result.items)
                gets.append(result)
            assert set(put.result().items) <= PUT
            older = content.keys(range(max(0, turn - 2) * 8, turn * 8 + 8))[:8]
            seen |= set(readers[0].check_get(older, timeout=20))
        for reader in readers:
            reader.close()
    assert seen <= READ and Status.OK in seen and Status.MISS in seen, seen
    assert accounts.status(daemon)["counters"]["pages_get_store"] > 0


def test_what_is_deleted_before_it_is_written_is_not_written_over_its_successor(start):
    """O1-16: its slot has another page by the time its write would have had its turn."""
    slow = {"write_bytes_per_s": 4 << 20}
    daemon = start(host_pool=TINY, store=slow)
    gone, kept = [], []
    with Engine(daemon.socket, 12, BYTES) as engine:
        for turn in range(4):
            first = content.keys(range(6), b"gone%d" % turn)
            assert set(engine.check_put(first, timeout=20)) == {Status.OK}
            assert accounts.status(daemon)["write_behind"]["pages"] > 0
            deleted = engine.client.delete(engine.space, first, timeout=20).result()
            second = content.keys(range(6), b"kept%d" % turn)
            statuses = engine.check_put(second, timeout=20)
            assert set(statuses) <= PUT
            assert set(engine.check_get(second, timeout=20)) <= READ
            gone += [key for key, item in zip(first, deleted.items) if item == Status.OK]
            kept += second
        assert len(gone) == 24
        eventually(lambda: accounts.status(daemon)["write_behind"]["pages"] == 0, "all is written",
                   pid=daemon.pid)
        assert set(engine.check_get(gone[:12], timeout=20)) == {Status.MISS}
    accounts.restart_with_store_only(daemon)
    with Engine(daemon.socket, 24, BYTES) as engine:
        assert set(engine.lookup(gone).result().places) == {Place.MISS}
        found = engine.lookup(kept).result()
        assert Place.STORE in set(found.places)
        for key in kept:
            assert set(engine.check_get([key], timeout=20)) <= READ
