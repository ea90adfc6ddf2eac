# SPDX-License-Identifier: Apache-2.0
"""Goal: a 3FS library that ends the daemon doesn't end it for ever: after two crashes within ten
minutes "auto" goes on with the builtin client, after two with that one without USRBIO, and says so;
the pages stay, and an end in order counts for nothing.

Method: a daemon under its supervisor that is ended by a signal, again and again; the notes in its
state directory made older.
"""
import os
import re
import signal

import pytest

import content
from engine import Engine
from kvsidecar import Status
from usrbio_node import SHARED_BUILTIN, described, library
from waiting import ended_within, eventually

PAGES = 20
REMEMBER_MS = 600_000
AUTO = {"store": {"kind": "auto"}, "usrbio": {"client": "auto", "library": library(SHARED_BUILTIN)}}


@pytest.fixture
def daemon(make_node):
    daemon = make_node(supervisor=True, **AUTO).start()
    with Engine(daemon.socket) as engine:
        eventually(lambda: set(engine.check_put(content.keys(range(PAGES)), durable=True,
                                                timeout=10)) <= {Status.OK, Status.EXISTS},
                   "the pages are stored")
    yield daemon
    assert daemon.terminate() == 0, daemon.log()


def crash(daemon):
    """It ends by a signal, and the supervisor's next one is there."""
    pid = daemon.pid
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert ended_within(pidfd)
    os.close(pidfd)
    eventually(lambda: started_after(daemon, pid), "the next one has started",
               pid=daemon.process.pid)


def started_after(daemon, pid):
    found = daemon.log().rpartition(f"supervisor_restarts_daemon pid={pid} ")
    return found[1] and " started epoch=" in found[2]


def has_all_pages(daemon):
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        return eventually(lambda: set(engine.check_get(keys, timeout=10)) == {Status.OK},
                          "all pages are found", pid=daemon.process.pid)


def age_notes(daemon, by_ms):
    path = daemon.path("state/usrbio")
    with open(path, encoding="ascii") as file:
        notes = [line.split() for line in file]
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{client} {int(ms) - by_ms}\n" for client, ms in notes)


def test_two_crashes_with_a_client_lead_to_the_next_one(daemon, mini3fs):
    for client in ("library .*", "builtin"):
        for _ in range(2):
            assert re.match(rf"usrbio \({client}, {mini3fs.mount}; auto: ", described(daemon))
            crash(daemon)
            assert has_all_pages(daemon)
        if client != "builtin":
            words = "builtin, because two daemons ended unexpectedly within ten minutes with the " \
                "library"
            assert words in described(daemon)
            daemon.log_has(r"store_kind kind=usrbio text=.*" + words)
    words = "not by USRBIO: two daemons ended unexpectedly within ten minutes with each client"
    assert re.match(r"file \(.*" + words, described(daemon))
    daemon.log_has(r"store_kind kind=file text=.*" + words)


def test_crashes_count_for_ten_minutes(daemon):
    crash(daemon)
    crash(daemon)
    assert described(daemon).startswith("usrbio (builtin, ")
    age_notes(daemon, REMEMBER_MS)
    crash(daemon)
    assert described(daemon).startswith("usrbio (library ")
    assert has_all_pages(daemon)


def test_ends_in_order_count_for_nothing(daemon):
    crash(daemon)
    for _ in range(3):
        assert daemon.terminate() == 0
        daemon.start()
        assert described(daemon).startswith("usrbio (library ")
    crash(daemon)
    assert described(daemon).startswith("usrbio (builtin, ")


def test_a_client_that_was_named_is_not_left(make_node):
    """Only "auto" chooses: the operator's word stands."""
    daemon = make_node(SHARED_BUILTIN, supervisor=True).start()
    for _ in range(3):
        crash(daemon)
        assert described(daemon).startswith("usrbio (library ")
    assert daemon.terminate() == 0
