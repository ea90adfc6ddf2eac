# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons of a test's own, and the checks after every test."""
import gc
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "harness"),
                os.path.join(os.path.dirname(TESTS), "clients", "python")]

import accounts  # noqa: E402
from daemon import Daemon, built  # noqa: E402
from usrbio_node import make_node, mini3fs, start_node  # noqa: E402, F401

os.environ.setdefault("KVSIDECAR_LIBRARY", built("libkvsidecar-client.so.0"))


@pytest.fixture
def make_daemon(tmp_path):
    """Makes a Daemon that isn't started. After the test every daemon that runs is asked for its
    account, stopped, and what it left behind is looked at."""
    made = []

    def make(name="node", **settings):
        made.append(Daemon(tmp_path / name, **settings))
        return made[-1]

    yield make
    try:
        for daemon in made:
            if daemon.running and daemon.baseline is not None:
                check_after(daemon)
    finally:
        for daemon in made:
            daemon.remove()


@pytest.fixture
def start(make_daemon):
    """Starts a Daemon and takes its baseline."""
    def begin(name="node", **settings):
        daemon = make_daemon(name, **settings).start()
        daemon.baseline = accounts.take_baseline(daemon)
        return daemon

    return begin


def check_after(daemon):
    gc.collect()  # clients that a failed test has left open
    accounts.check_baseline(daemon)
    accounts.check_sums(accounts.status(daemon)["counters"])
    assert daemon.terminate() == 0, daemon.log()
    log = daemon.log()
    for word in ("stopped_in_flight", "KV_CHECK", "check failed"):
        assert word not in log, log
    assert not os.path.exists(daemon.socket)


def pytest_terminal_summary(terminalreporter):
    skipped = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"skipped: {skipped}")
