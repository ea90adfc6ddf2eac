# SPDX-License-Identifier: Apache-2.0
"""Goal: a load that fails fails by its items: the others have their bytes, no block holds anything
else, nothing is counted as loaded, and what can't be read is promised to nobody again. (Bug reports
O1-10, O1-15, O1-17, O2-09, O2-10.)

Method: segment files spoiled under a running daemon, one page or all; and pools that are much
smaller than a batch.
"""
import os

import pytest

import accounts
import content
from engine import Engine
from kvsidecar import Place, Status
from waiting import eventually

BYTES = 65536
GONE = {Status.MISS, Status.CORRUPT, Status.IO_ERROR}
TINY = {"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "1MiB"}


def segments(daemon):
    return [os.path.join(folder, name) for folder, _, files in os.walk(daemon.path("store"))
            for name in files]


def only_stored(daemon, count):
    """Keys whose pages are in the store and not in the pool of the daemon that runs then."""
    keys = content.keys(range(count))
    with Engine(daemon.socket, count, BYTES) as engine:
        assert engine.put(keys, durable=True, timeout=20).result().succeeded == count
    accounts.restart_with_store_only(daemon)
    daemon.store_was_harmed = True
    return keys


def spoil(daemon, key):
    """Flips one bit of the key's page, wherever it lies."""
    page = content.page(key, BYTES).tobytes()
    for path in segments(daemon):
        with open(path, "r+b") as file:
            at = file.read().find(page)
            if at >= 0:
                file.seek(at + BYTES // 2)
                file.write(bytes([page[BYTES // 2] ^ 1]))
                return
    raise AssertionError("the page is in no file")


@pytest.mark.parametrize("broken", [0, 1, 31, 63])
def test_one_page_that_fails_is_one_item_and_the_rest_keeps_its_bytes(start, broken):
    """O1-17: how many leading pages are valid is exactly what the items say."""
    daemon = start()
    keys = only_stored(daemon, 64)
    spoil(daemon, keys[broken])
    with Engine(daemon.socket, 64, BYTES) as engine:
        items = engine.check_get(keys, timeout=20)
        wanted = [Status.OK] * 64
        wanted[broken] = Status.CORRUPT
        assert items == wanted
        assert engine.is_blank(broken)
        if broken < 63:  # the rest is asked for again
            rest = engine.check_get(keys[broken + 1:], first_block=broken + 1, timeout=20)
            assert set(rest) == {Status.OK}
        assert all(engine.is_page(block, keys[block]) for block in range(broken))
        assert engine.lookup(keys).result().longest == broken


def test_when_no_read_succeeds_nothing_is_loaded_and_nothing_counted_so(start):
    """O1-15: after a lookup that promised every page."""
    daemon = start()
    keys = only_stored(daemon, 64)
    with Engine(daemon.socket, 64, BYTES) as engine:
        assert set(engine.lookup(keys).result().places) == {Place.STORE}
        for key in keys:
            spoil(daemon, key)
        assert set(engine.check_get(keys, timeout=20)) <= GONE
        assert all(engine.is_blank(block) for block in range(64))
        counters = accounts.status(daemon)["counters"]
        assert counters["pages_found_store"] == 64
        assert counters["pages_get_host"] == counters["pages_get_store"] == 0
        assert counters["pages_get_miss"] == 64 and counters["bytes_get"] == 0


def test_a_page_that_cannot_be_read_is_promised_once(start):
    """O2-10: hit, load, failure: the second lookup knows better, until it is put again."""
    daemon = start()
    keys = only_stored(daemon, 8)
    for key in keys:
        spoil(daemon, key)
    with Engine(daemon.socket, 8, BYTES) as engine:
        assert set(engine.lookup(keys).result().places) == {Place.STORE}
        assert set(engine.check_get(keys, timeout=20)) <= GONE
        for _ in range(20):
            assert engine.lookup(keys).result().longest == 0
            assert set(engine.check_get(keys, timeout=20)) == {Status.MISS}
        assert accounts.status(daemon)["counters"]["store_reads"] <= 2 * len(keys)
        assert set(engine.check_put(keys)) == {Status.OK}
        assert set(engine.check_get(keys)) == {Status.OK}


def test_a_batch_that_the_pool_cannot_take_is_refused_item_by_item(start):
    """O1-10: room for all but `held` pages, and 24 to be read; none is said to be loaded that
    wasn't, and with each further page held there is less room."""
    page = 1176 * 1024
    daemon = start(host_pool=TINY, limits={"leases_percent": 90})
    keys = content.keys(range(24))
    with Engine(daemon.socket, 24, page) as engine:
        for first in range(0, 24, 4):
            some = keys[first:first + 4]
            assert set(engine.check_put(some, durable=True, timeout=20)) == {Status.OK}
        leases = []
        for hot in content.keys(range(24), b"hot"):
            items = engine.check_get(keys, timeout=20)  # compares every byte of every block
            assert set(items) <= {Status.OK, Status.BUSY}
            now = accounts.status(daemon)
            assert now["host_pool"]["slots_filling"] == now["fetches"] == 0
            if Status.OK not in items:
                break
            if engine.check_put([hot], durable=True, timeout=20) == [Status.OK]:
                found = engine.lookup([hot], lease=60).result()
                assert found.lease, found
                leases.append(found.lease)
        assert Status.OK not in items and leases
        for lease in leases:
            assert engine.client.release(lease).result().ok
        for key in keys:
            assert engine.check_get([key], timeout=20) == [Status.OK]


def test_many_engines_that_load_from_the_store_through_a_tiny_pool_all_end(start):
    """O2-09: far more reads than slots."""
    page = 512 * 1024
    daemon = start(host_pool=TINY)
    keys = content.keys(range(32))
    engines = [Engine(daemon.socket, 8, page) for _ in range(8)]
    try:
        for first in range(0, 32, 8):
            assert set(engines[0].check_put(keys[first:first + 8], durable=True, timeout=20)) == \
                {Status.OK}
        for turn in range(12):
            wanted = [[keys[(turn * 5 + number * 3 + i) % 32] for i in range(8)]
                      for number in range(len(engines))]
            gets = [engine.get(mine, timeout=20) for engine, mine in zip(engines, wanted)]
            for engine, mine, op in zip(engines, wanted, gets):
                result = op.result()
                assert engine.wrong(mine, result) == []
                assert set(result.items) <= {Status.OK, Status.BUSY}, result
        eventually(lambda: accounts.status(daemon)["operations"] <= 1, "none is left",
                   pid=daemon.pid)
    finally:
        for engine in engines:
            engine.close()
