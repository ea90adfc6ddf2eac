# SPDX-License-Identifier: Apache-2.0
"""Goal: a daemon that does not move is ended and comes back by itself; who waited for a copy gets
his blocks with its death.

Method: SIGSTOP under a supervisor with a short time limit.
"""
import os
import signal

import pytest

import content
from claims import Claims
from engine import Engine
from kvsidecar import EventKind, Status
from test_stopped_daemon import (FILLER, PAGE_BYTES, PAGES, POOL, events_until_end_or_overdue,
                                 stored_pages)
from waiting import ended_within, eventually

TIMEOUT_S = 1
SETTINGS = dict(POOL, daemon={"supervisor_timeout_s": TIMEOUT_S})
UNAVAILABLE = {Status.UNAVAILABLE, Status.TIMEOUT, Status.OK}


def go_on(daemon, engine, pidfd):
    """The next attempt: the daemon runs again, or its successor does if that took too long."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    except ProcessLookupError:
        eventually(lambda: ended_within(pidfd, 0) and engine.client.wait_connected(1) and
                   engine.lookup([b"any"]).result().ok, "the successor serves")
    os.close(pidfd)


def test_a_stopped_daemon_is_killed_and_its_successor_serves_the_same_pages(start):
    daemon = start(supervisor=True, **SETTINGS)
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        keys = stored_pages(engine)
        for _ in range(40):
            first = daemon.pid
            pidfd = os.pidfd_open(first)
            op = engine.get(keys, timeout=0.1)
            Claims().wait_for_copy(op)
            daemon.pause()
            if EventKind.OVERDUE in events_until_end_or_overdue(engine.client, op):
                break
            op.result()
            go_on(daemon, engine, pidfd)
        else:
            pytest.fail("no get was caught in its copy")
        result = op.result()
        assert ended_within(pidfd, 0), "it ends only with the daemon's death"
        assert Status.UNAVAILABLE in set(result.items) and set(result.items) <= UNAVAILABLE
        assert engine.wrong(keys, result) == []
        engine.view[:] = FILLER  # all blocks are the engine's now, whoever it was that had them
        assert engine.client.wait_connected(20)
        assert daemon.pid != first and engine.client.stat(timeout=10).result().ok
        assert (engine.view == FILLER).all()
        eventually(lambda: set(engine.check_get(keys, timeout=5)) == {Status.OK},
                   "all pages are found again", pid=daemon.pid)
    os.close(pidfd)
    daemon.log_has(r"supervisor_kills_daemon pid=%d reason=no_progress" % first)
    daemon.killed_with_store = True


def test_a_daemon_that_crashes_comes_back_and_one_that_is_told_to_end_does_not(start):
    daemon = start(supervisor=True, **SETTINGS)
    with Engine(daemon.socket) as engine:
        keys = content.keys(range(8))
        assert engine.put(keys).result().succeeded == 8
        first = daemon.pid
        os.kill(first, signal.SIGABRT)
        eventually(lambda: engine.client.connection().connects >= 2, "a new connection",
                   pid=daemon.process.pid)
        assert daemon.pid != first
        eventually(lambda: set(engine.check_get(keys)) == {Status.OK}, "the pages are back")
    daemon.log_has(r"supervisor_restarts_daemon pid=%d signal=%d" % (first, signal.SIGABRT))
