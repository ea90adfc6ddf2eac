# SPDX-License-Identifier: Apache-2.0
"""Goal: a daemon that is told to end does so in order, whoever tells it, how and when: in time,
with exit code 0, its clients told, and nothing left but its warm pool. (Bug report O3-02.)

Method: each signal, with and without a supervisor: idle, under thousands of operations, and at
moments of the start; and as a terminal and systemd send it, to supervisor and daemon at once.
"""
import os
import re
import signal

import pytest

import content
from daemon import proc_text
from engine import Engine
from kvsidecar import Status
from waiting import ended_within, eventually

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
END_S = 10
PAGES = 64
BIG = {"host_pool": {"bytes": "1GiB", "chunk_bytes": "128MiB"}}  # takes a while to come in


def check_ended(daemon, code=0):
    assert daemon.wait(END_S) == code, daemon.log()
    assert "stopped_in_flight" not in daemon.log(), daemon.log()
    assert not os.path.exists(daemon.socket)
    left = [name for _, _, files in os.walk(daemon.path("state")) for name in files]
    assert not [name for name in left if name.endswith(".tmp")], left
    size = {os.stat(path).st_blocks * 512 for path in daemon.shm_files()}
    assert len(size) <= 1, "a chunk is half made"


@pytest.mark.parametrize("supervisor", [False, True], ids=["alone", "supervised"])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_idle_daemon_ends_in_order(start, number, supervisor):
    daemon = start(supervisor=supervisor)
    with Engine(daemon.socket) as engine:
        daemon.process.send_signal(number)
        check_ended(daemon)
        assert engine.lookup([b"any"]).result().status == Status.UNAVAILABLE


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_daemon_under_load_answers_or_says_that_it_goes(start, number):
    daemon = start()
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket, PAGES) as engine:
        assert engine.put(keys).result().succeeded == PAGES
        ops = [engine.client.get(engine.space, keys, engine.layout, range(PAGES), timeout=END_S)
               for _ in range(160)]  # 10,240 items
        daemon.process.send_signal(number)
        ops += [engine.lookup(keys, timeout=END_S) for _ in range(100)]
        check_ended(daemon)
        told = {Status(int(op.result().status)) for op in ops}
        assert told <= {Status.OK, Status.BUSY, Status.DRAINING, Status.UNAVAILABLE}, told
        assert all(engine.is_page(i, key) for i, key in enumerate(keys))


def mapped_chunks(daemon):
    return proc_text(daemon.process.pid, "maps").count(f"/dev/shm/kvsidecar.{daemon.pool}.")


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_daemon_whose_pool_still_comes_in_ends_at_once(make_daemon, number, chunks):
    daemon = make_daemon(**BIG).spawn()
    eventually(lambda: mapped_chunks(daemon) >= chunks, "some chunks are in",
               pid=daemon.process.pid, look=0)
    daemon.process.send_signal(number)
    check_ended(daemon)


def test_a_daemon_that_has_hardly_begun_leaves_nothing(make_daemon):
    """Before it takes signals over it is ended by them; afterwards in order."""
    for attempt in range(20):
        daemon = make_daemon(f"node{attempt}", supervisor=attempt % 2 == 1).spawn()
        seen = (lambda: True, lambda: os.path.exists(daemon.path("run/kvsidecard.pid")),
                lambda: os.path.exists(daemon.path("state/epoch")),
                lambda: os.path.exists(daemon.socket))[attempt // 2 % 4]
        eventually(seen, "so far it has come", pid=daemon.process.pid, look=0)
        daemon.process.terminate()
        code = daemon.wait(END_S)
        assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), daemon.log()
        assert "stopped_in_flight" not in daemon.log()
        assert not os.path.exists(daemon.socket)


def test_one_stop_that_reaches_supervisor_and_daemon_waits_for_the_drain(start):
    """A terminal signals the process group, systemd the control group. Only a second one ends the
    wait for what isn't in the store yet."""
    daemon = start(supervisor=True, store={"write_bytes_per_s": "4MiB"})
    with Engine(daemon.socket, PAGES) as engine:
        assert engine.put(content.keys(range(PAGES))).result().succeeded == PAGES
    for pid in (daemon.pid, daemon.process.pid):
        os.kill(pid, signal.SIGTERM)
    check_ended(daemon)
    assert "drained=yes" in daemon.log(), daemon.log()


def test_a_second_stop_ends_the_wait(start):
    daemon = start(store={"write_bytes_per_s": "64KiB"}, daemon={"drain_timeout_s": 300})
    with Engine(daemon.socket, PAGES) as engine:
        assert engine.put(content.keys(range(PAGES))).result().succeeded == PAGES
    daemon.process.send_signal(signal.SIGTERM)
    daemon.log_has(r"\bdraining\b")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait(END_S) == 0
    assert re.search("drained=no", daemon.log()), daemon.log()


def test_the_daemon_ends_with_its_supervisor(start):
    daemon = start(supervisor=True)
    pidfd = os.pidfd_open(daemon.pid)
    daemon.process.kill()
    daemon.wait(END_S)
    assert ended_within(pidfd)
    os.close(pidfd)
