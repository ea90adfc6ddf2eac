# SPDX-License-Identifier: Apache-2.0
"""Goal: what becomes of pages when 3FS's mount dies, hangs, gives place to a plain directory or
comes back: misses meanwhile, nothing written where it doesn't belong, and the same pages
afterwards.

Method: pages that only the store has; mini3fs killed, detached, stopped, restarted.
"""
import os

import pytest

import accounts
import content
from engine import Engine
from kvsidecar import Place, Status
from test_start_and_account import samples
from usrbio_node import BUILTIN, HEARTBEATS_S, SHARED_BUILTIN, WAYS, described
from waiting import eventually

PAGES = 40
POOL_PAGES = 400  # more than the small pool holds
NOT_NOW = {Status.MISS, Status.IO_ERROR}


@pytest.fixture
def stored(start_node):
    """A daemon and the keys of pages that only its store has."""
    def begin(way=BUILTIN, **settings):
        daemon = start_node(way, **settings)
        keys = content.keys(range(PAGES))
        with Engine(daemon.socket) as engine:
            assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
        accounts.restart_with_store_only(daemon)
        return daemon, keys

    return begin


def is_up(daemon):
    return ("kvsidecar_usrbio_up", None, 1) in samples(daemon)


def wait_lost(daemon):
    eventually(lambda: "mount is lost" in described(daemon), "the loss is told", pid=daemon.pid,
               seconds=HEARTBEATS_S)


def wait_up(daemon):
    eventually(lambda: is_up(daemon), "the mount is in use again", pid=daemon.pid,
               seconds=HEARTBEATS_S)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_stored_pages_are_misses_without_the_mount_and_hits_with_the_next(stored, mini3fs, way):
    daemon, keys = stored(way)
    mini3fs.kill()
    wait_lost(daemon)
    more = content.keys(range(PAGES), b"more")
    with Engine(daemon.socket) as engine:
        assert set(engine.check_get(keys, timeout=10)) <= NOT_NOW
        assert set(engine.check_put(more, timeout=10)) == {Status.OK}
        assert set(engine.check_get(more, timeout=10)) == {Status.OK}  # of the host pool
        not_durable = engine.check_put(content.keys([1], b"durable"), durable=True, timeout=10)
        assert not_durable == [Status.NOT_STORED]
    mini3fs.restart()
    wait_up(daemon)
    with Engine(daemon.socket) as engine:
        assert set(engine.lookup(keys).result().places) == {Place.STORE}
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
        again = content.keys(range(PAGES), b"again")
        assert set(engine.check_put(again, durable=True, timeout=20)) == {Status.OK}
    daemon.baseline["descriptors"] = accounts.holdings(daemon)["descriptors"]


def test_what_vanished_with_the_mount_is_a_miss(stored, mini3fs):
    daemon, keys = stored()
    mini3fs.kill()
    wait_lost(daemon)
    for folder, _, names in os.walk(mini3fs.data):
        for name in names:
            if os.path.getsize(os.path.join(folder, name)) > 100_000:
                os.unlink(os.path.join(folder, name))
    mini3fs.restart()
    wait_up(daemon)
    with Engine(daemon.socket) as engine:
        assert set(engine.check_get(keys, timeout=10)) <= NOT_NOW
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}


def test_nothing_is_written_where_the_mount_was(stored, mini3fs):
    daemon, keys = stored()
    mini3fs.kill()
    mini3fs.detach()
    root = os.path.join(mini3fs.mount, "node")
    os.mkdir(root)
    wait_lost(daemon)
    daemon.log_has("not back yet: .*lies on no 3FS mount", seconds=HEARTBEATS_S)
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(content.keys(range(PAGES), b"more"), timeout=10)) == {Status.OK}
        assert set(engine.check_get(keys, timeout=10)) <= NOT_NOW
    assert os.listdir(root) == []
    os.rmdir(root)
    mini3fs.restart()
    wait_up(daemon)
    with Engine(daemon.socket) as engine:
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}


@pytest.mark.parametrize("way", [BUILTIN, SHARED_BUILTIN], ids=["builtin", "library"])
def test_a_hanging_mount_costs_misses_and_no_engine_waits_for_it(stored, mini3fs, way):
    daemon, keys = stored(way)
    mini3fs.pause()
    more = content.keys(range(PAGES), b"more")
    with Engine(daemon.socket) as engine:
        # What is under way when it begins to hang waits, no longer than its time.
        caught, others = keys[:PAGES // 2], keys[PAGES // 2:]
        assert set(engine.check_get(caught, timeout=1)) <= NOT_NOW | {Status.TIMEOUT}
        eventually(lambda: ("kvsidecar_store_breaker_open", None, 1) in samples(daemon),
                   "the breaker is open", pid=daemon.pid)
        assert set(engine.check_get(others, timeout=10)) <= NOT_NOW
        assert set(engine.check_put(more, timeout=10)) == {Status.OK}
        assert set(engine.check_get(more, timeout=10)) == {Status.OK}
    mini3fs.resume()
    eventually(lambda: ("kvsidecar_store_breaker_open", None, 0) in samples(daemon),
               "the breaker is closed", pid=daemon.pid, seconds=HEARTBEATS_S)
    with Engine(daemon.socket) as engine:
        eventually(lambda: set(engine.check_get(keys, timeout=10)) == {Status.OK},
                   "the pages hit again", pid=daemon.pid)


def test_a_late_read_never_lands_in_another_page(stored, mini3fs):
    """Its slot of the pool is its own until it has ended, though nobody waits for it any more."""
    daemon, keys = stored(host_pool={"bytes": "16MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"})
    mini3fs.set("read.stall", "on")
    with Engine(daemon.socket, len(keys)) as engine:
        assert set(engine.check_get(keys, timeout=0.5)) <= NOT_NOW | {Status.TIMEOUT}
        mini3fs.wait_for("stalled", 1)
        more = content.keys(range(POOL_PAGES), b"more")
        for first in range(0, POOL_PAGES, PAGES):
            assert Status.OK in engine.check_put(more[first:first + PAGES], timeout=10)
        mini3fs.clear()
        eventually(lambda: mini3fs.count("stalled") == 0, "the reads have landed")
        for first in range(0, POOL_PAGES, PAGES):
            engine.check_get(more[first:first + PAGES], timeout=10)  # compares every byte
        eventually(lambda: set(engine.check_get(keys, timeout=10)) == {Status.OK},
                   "the pages hit again", pid=daemon.pid)


@pytest.mark.parametrize("fault, value", [
    ("space.bytes", 1 << 20), ("quota.bytes", 1 << 20), ("write.error", "EIO"),
    ("write.short", 0), ("fuse.create", "ENOSPC")])
def test_writes_that_fail_cost_durability_and_heal(start_node, mini3fs, fault, value):
    daemon = start_node()
    mini3fs.set(fault, value)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        statuses = engine.check_put(keys, durable=True, timeout=10)
        assert Status.NOT_STORED in statuses and set(statuses) <= {Status.OK, Status.NOT_STORED}
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}  # of the host pool
        mini3fs.clear()
        more = content.keys(range(4), b"more")

        def stored_again():
            assert engine.client.delete(engine.space, more, timeout=10).result().ok
            return set(engine.check_put(more, durable=True, timeout=10)) == {Status.OK}

        eventually(stored_again, "it writes again", pid=daemon.pid)
    written = [key for key, status in zip(keys, statuses) if status == Status.OK] + more
    accounts.restart_with_store_only(daemon)
    with Engine(daemon.socket) as engine:
        assert set(engine.check_get(written, timeout=10)) == {Status.OK}


def test_a_daemon_ends_in_order_without_its_mount(stored, mini3fs):
    daemon, keys = stored()
    mini3fs.kill()
    wait_lost(daemon)
    assert daemon.terminate() == 0, daemon.log()
    mini3fs.restart()
    daemon.forget_pool()
    daemon.start()
    accounts.take_baseline(daemon)
    with Engine(daemon.socket) as engine:
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
