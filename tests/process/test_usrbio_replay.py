# SPDX-License-Identifier: Apache-2.0
"""Goal: a fleet's traffic on the usrbio store never sees a wrong byte and never stops, whoever is
killed under it: the daemon, 3FS's fuse daemon, or both; afterwards the store's pages hit again and
nobody has left anything behind.

Method: replays on a pool that is too small for them, on mini3fs, in the three ways to reach it. The
servers are killed and stopped when so many pages were written; every wait ends with what is waited
for.
"""
import os

import pytest

import accounts
from replays import GatedDaemon, Replay
from test_start_and_account import samples
from usrbio_node import (BUILTIN, EMULATOR, HEARTBEATS_S, SHARED_BUILTIN, WAYS, Leftovers,
                         described)
from waiting import eventually

POOL = {"host_pool": {"bytes": "16MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"},
        "store": {"capacity_bytes": "128MiB"}}
REQUESTS = 1500
LOAD = ["--seconds", "12"]  # for what takes some heartbeats
LOAD_REQUESTS = 100_000
WRITTEN_BYTES = 8 << 20
# The first I/O is the check at the start, which has to succeed.
MOODS = {"early.random": "7", "jobs.newest_first": "on", "stat.delayed": "on",
         "gc.at_unlink": "on", "read.short": "4096@%11", "write.short": "4096@%13",
         "read.error": "EIO@%101", "write.error": "EIO@%103", "read.delay_us": "2000@%7",
         "read.late_us": "2000@%5", "write.late_us": "3000@%6"}

each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
# The emulator looks at its files within calls that never wait for the real fuse daemon.
each_protocol = pytest.mark.parametrize("way", [BUILTIN, SHARED_BUILTIN],
                                        ids=["builtin", "library"])


def figure(daemon, name, labels=None):
    return {(one, of): value for one, of, value in samples(daemon)}[f"kvsidecar_{name}", labels]


def stored_bytes(server):
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512
               for folder, _, names in os.walk(server.data) for name in names)


def wait_written(server):
    begin = stored_bytes(server)
    eventually(lambda: stored_bytes(server) > begin + WRITTEN_BYTES, "pages are written")


def hits_again(daemon):
    with Replay(daemon, REQUESTS) as replay:
        assert replay.report()["pages_store"] > 0


def end_with_nothing_left(daemon, leftovers, but=()):
    assert leftovers.look()
    accounts.check_baseline(daemon, but)
    assert daemon.terminate() == 0, daemon.log()
    leftovers.check(daemon)


@each_way
def test_a_killed_daemons_successor_hits_in_pool_and_store(make_node, mini3fs, way):
    daemon = make_node(way, **POOL)
    leftovers = Leftovers(mini3fs)
    gated = GatedDaemon(daemon.folder)
    with Replay(daemon, REQUESTS, "--daemon", gated.program, "--config",
                daemon.write_config()) as replay:
        gated.let_in()
        wait_written(mini3fs)
        leftovers.look()
        replay.wait_for_kill()
        gated.let_in()
        report = replay.report()
    assert report["pages_store"] > 0 and report["after_restart_hits"] > 0, report
    leftovers.check(daemon)


@each_way
def test_a_fuse_daemon_that_does_what_it_may_costs_no_byte(start_node, mini3fs, monkeypatch, way):
    """I/O that starts early, ends in another order, late, short or with an error."""
    if way != EMULATOR:  # whose rings a mini3fs in such a mood would run too
        for name, value in MOODS.items():
            mini3fs.set(name, value)
    monkeypatch.setenv("KVSIDECAR_EMULATOR_FAULTS",
                       ";".join(f"{name} {value}" for name, value in MOODS.items()))
    leftovers = Leftovers(mini3fs)
    daemon = start_node(way, **POOL)
    with Replay(daemon, REQUESTS) as replay:
        assert replay.report()["pages_store"] > 0
    for name in ("short_total", "errors_total"):
        assert figure(daemon, "usrbio_" + name, '{class="write"}') > 0, name
    end_with_nothing_left(daemon, leftovers)


@each_way
def test_engines_go_on_while_the_fuse_daemon_is_dead(start_node, mini3fs, way):
    leftovers = Leftovers(mini3fs)
    daemon = start_node(way, **POOL)
    with Replay(daemon, LOAD_REQUESTS, *LOAD) as replay:
        wait_written(mini3fs)
        leftovers.look()
        mini3fs.kill()
        eventually(lambda: "mount is lost" in described(daemon), "the loss is told",
                   pid=daemon.pid, seconds=HEARTBEATS_S)
        mini3fs.restart()
        eventually(lambda: figure(daemon, "usrbio_up") == 1, "the mount is in use again",
                   pid=daemon.pid, seconds=HEARTBEATS_S)
        replay.report()
    hits_again(daemon)
    assert figure(daemon, "usrbio_mounts_lost_total") == 1
    # As the real library, the emulator keeps its copies of a dead mount's files until their numbers
    # are registered again.
    end_with_nothing_left(daemon, leftovers, ["descriptors"] if way == EMULATOR else [])


@each_protocol
def test_engines_go_on_while_the_fuse_daemon_stands_still(start_node, mini3fs, way):
    leftovers = Leftovers(mini3fs)
    daemon = start_node(way, **POOL)
    with Replay(daemon, LOAD_REQUESTS, *LOAD) as replay:
        wait_written(mini3fs)
        leftovers.look()
        mini3fs.pause()
        eventually(lambda: figure(daemon, "store_breaker_open") == 1, "the breaker opens",
                   pid=daemon.pid, seconds=HEARTBEATS_S)
        eventually(lambda: "does not answer" in described(daemon), "the hang is told",
                   pid=daemon.pid, seconds=HEARTBEATS_S)
        mini3fs.resume()
        eventually(lambda: figure(daemon, "store_breaker_open") == 0 and
                   "does not answer" not in described(daemon), "the store is in use again",
                   pid=daemon.pid, seconds=HEARTBEATS_S)
        replay.report()
    hits_again(daemon)
    assert figure(daemon, "usrbio_mounts_lost_total") == 0
    end_with_nothing_left(daemon, leftovers)


@each_way
def test_daemon_and_fuse_daemon_may_die_together(make_node, mini3fs, way):
    """The fuse daemon dies under the first kvsidecard's I/O; both are back at once."""
    daemon = make_node(way, **POOL)
    leftovers = Leftovers(mini3fs)
    gated = GatedDaemon(daemon.folder)
    with Replay(daemon, REQUESTS, "--daemon", gated.program, "--config",
                daemon.write_config()) as replay:
        gated.let_in()
        wait_written(mini3fs)
        leftovers.look()
        mini3fs.kill()
        replay.wait_for_kill()
        with gated.held():
            mini3fs.restart()
        report = replay.report()
    assert report["pages_store"] > 0 and report["after_restart_hits"] > 0, report
    leftovers.check(daemon)
