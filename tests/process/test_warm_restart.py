# SPDX-License-Identifier: Apache-2.0
"""Goal: the next daemon finds what its predecessor had, in the host pool and in the store, whether
that one ended in order or was killed; and nothing that was cleared comes back.

Method: real restarts; the places that lookup tells, the counters of the new life, and every byte.
"""
import os
import time

import pytest

import accounts
import content
from engine import Engine
from kvsidecar import Place, Status
from waiting import ended_within, eventually

PAGES = 40
NO_STORE = {"store": {"kind": "none", "root": ""}}


def end(daemon, how):
    if how == "SIGTERM":
        assert daemon.terminate() == 0, daemon.log()
    else:
        daemon.kill()


def wait_whole(daemon):
    accounts.take_baseline(daemon)


def segment_bytes(daemon):
    """What the store's segment files take on the disk."""
    sizes = []
    for folder, _, files in os.walk(daemon.path("store")):
        sizes += [os.stat(os.path.join(folder, name)).st_blocks * 512 for name in files
                  if name not in ("owner", "epoch")]
    return sum(sizes)


def places(engine, keys):
    found = engine.lookup(keys).result()
    assert found.ok
    return [Place(int(place)) for place in found.places]


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_the_host_pool_is_adopted_and_checked_at_the_first_get(start, how):
    daemon = start(**NO_STORE)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys).result().succeeded == PAGES
    end(daemon, how)
    daemon.start()
    wait_whole(daemon)
    assert accounts.status(daemon)["counters"]["pages_adopted"] == PAGES
    with Engine(daemon.socket) as engine:
        assert places(engine, keys) == [Place.HOST] * PAGES
        assert set(engine.check_get(keys)) == {Status.OK}
        assert accounts.status(daemon)["counters"]["pages_verified"] >= PAGES
        assert set(engine.check_put(keys)) == {Status.EXISTS}


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_the_store_is_found_when_the_pool_is_gone(start, how):
    daemon = start()
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys, durable=True, timeout=10).result().succeeded == PAGES
    end(daemon, how)
    daemon.forget_pool()
    daemon.killed_with_store = False  # its unfinished slots went with the files
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket) as engine:
        assert places(engine, keys) == [Place.STORE] * PAGES
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
        now = accounts.status(daemon)
        assert now["counters"]["pages_get_store"] == PAGES
        assert now["counters"]["pages_scanned"] == PAGES
        # O3-22: no file is forgotten; the file system's own rounding is all that differs.
        assert 0 <= segment_bytes(daemon) - now["segments"]["bytes"] < 65536


def test_sigterm_writes_what_waits_for_the_store(start):
    """The drain: pages of a moment ago are in the store after it."""
    daemon = start(store={"write_bytes_per_s": "4MiB"})
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys).result().succeeded == PAGES
        assert daemon.terminate(30) == 0
    daemon.log_has("drained=yes")
    daemon.forget_pool()
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket) as engine:
        assert places(engine, keys) == [Place.STORE] * PAGES


def test_a_page_with_a_spoiled_byte_in_the_adopted_pool_is_a_miss(start):
    """O1-14: FULL slots are believed only once their bytes have proved themselves."""
    daemon = start(**NO_STORE)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys).result().succeeded == PAGES
    assert daemon.terminate() == 0
    spoiled = [3, 17, 39]
    for path in daemon.shm_files():
        with open(path, "r+b") as file:
            data = file.read()
            for number in spoiled:
                # Its second half: another page may begin with the same bytes only by accident.
                at = data.find(content.page(keys[number], 65536).tobytes())
                if at >= 0:
                    file.seek(at + 40000)
                    file.write(b"!")
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket) as engine:
        statuses = engine.check_get(keys)
        assert [i for i, status in enumerate(statuses) if status != Status.OK] == spoiled
        assert accounts.status(daemon)["counters"]["pages_corrupt"] == len(spoiled)
        assert [engine.check_put([keys[i]])[0] for i in spoiled] == [Status.OK] * 3
        assert set(engine.check_get(keys)) == {Status.OK}


@pytest.mark.parametrize("store", [{}, NO_STORE], ids=["store", "pool_only"])
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_a_clear_survives_the_end_of_the_daemon(start, how, store):
    daemon = start(**store)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        durable = {} if store else {"durable": True, "timeout": 10}
        assert engine.put(keys, **durable).result().succeeded == PAGES
        generation = engine.client.clear(engine.space).result().generation
        assert places(engine, keys) == [Place.MISS] * PAGES
    end(daemon, how)
    daemon.killed_with_store = False
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket) as engine:
        assert engine.space.generation == generation
        assert places(engine, keys) == [Place.MISS] * PAGES
        assert set(engine.check_get(keys)) == {Status.MISS}
        assert set(engine.check_put(keys)) == {Status.OK}
        assert set(engine.check_get(keys)) == {Status.OK}


def test_a_client_of_an_older_generation_can_neither_put_nor_get(start):
    daemon = start()
    keys = content.keys(range(4))
    with Engine(daemon.socket) as old, Engine(daemon.socket) as other:
        assert set(old.check_put(keys)) == {Status.OK}
        assert other.client.clear(other.space).result().ok
        assert old.put(keys).result().status == Status.STALE_NAMESPACE
        assert old.get(keys).result().status == Status.STALE_NAMESPACE
        daemon.kill()
        daemon.killed_with_store = False
        daemon.start()
        # Nor after a reconnect: the library doesn't attach it to a generation it hasn't asked for.
        assert old.client.wait_connected(20)
        eventually(lambda: old.client.connection().connects == 2, "it is connected again")
        assert old.put(keys).result().status == Status.STALE_NAMESPACE
        assert old.client.clear(old.space).result().ok
        assert set(old.check_put(keys)) == {Status.OK}


def test_deleted_pages_stay_deleted(start):
    daemon = start()
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys, durable=True, timeout=10).result().succeeded == PAGES
        assert engine.client.delete(engine.space, keys[::2], timeout=10).result().ok
    assert daemon.terminate() == 0
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket) as engine:
        found = places(engine, keys)
        assert set(found[::2]) == {Place.MISS} and Place.MISS not in found[1::2]


KILLS = 16
SMALL_BYTES, SMALL_PAGES = 4096, 4000  # enough slots that adopting them takes a while


def start_time(daemon):
    """From its beginning until all is adopted and read."""
    begin = time.monotonic()
    daemon.start()
    eventually(lambda: accounts.status(daemon)["counters"]["pages_adopted"] == SMALL_PAGES,
               "all is adopted", pid=daemon.pid)
    return time.monotonic() - begin


def test_a_daemon_killed_while_it_adopts_loses_nothing(start):
    """Several times in a row, at moments that move through its start."""
    daemon = start(store={"segment_bytes": "4MiB"})
    keys = content.keys(range(SMALL_PAGES))
    with Engine(daemon.socket, SMALL_PAGES, SMALL_BYTES) as engine:
        assert engine.put(keys, timeout=20).result().succeeded == SMALL_PAGES
        eventually(lambda: accounts.status(daemon)["write_behind"]["pages"] == 0, "all is written")
    daemon.kill()
    whole_s = start_time(daemon)
    daemon.kill()
    for kill in range(KILLS):
        daemon.spawn()
        pidfd = os.pidfd_open(daemon.process.pid)
        assert not ended_within(pidfd, whole_s * (kill + 1) / KILLS), daemon.log()
        os.close(pidfd)
        daemon.kill()
    daemon.killed_with_store = False  # nothing was put meanwhile: no slot may stay aside
    daemon.start()
    wait_whole(daemon)
    with Engine(daemon.socket, SMALL_PAGES, SMALL_BYTES) as engine:
        assert set(places(engine, keys)) == {Place.HOST}
        for first in range(0, SMALL_PAGES, 500):  # more checks at once than a queue holds are BUSY
            assert set(engine.check_get(keys[first:first + 500], timeout=20)) == {Status.OK}


def test_the_pool_survives_a_change_of_nothing_and_not_of_its_shape(start):
    daemon = start(**NO_STORE)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys).result().succeeded == PAGES
    assert daemon.terminate() == 0
    daemon.sections["host_pool"]["span_bytes"] = "8MiB"
    daemon.start()
    daemon.baseline = accounts.take_baseline(daemon)
    with Engine(daemon.socket) as engine:
        assert places(engine, keys) == [Place.MISS] * PAGES
        assert set(engine.check_put(keys)) == {Status.OK}
        assert set(engine.check_get(keys)) == {Status.OK}
