# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the engines' tests: daemons, each in a folder of its own, gone with the test."""
import pytest

from daemon import Daemon


@pytest.fixture
def make_daemon(tmp_path):
    made = []

    def make(name="node", **settings):
        made.append(Daemon(tmp_path / name, **settings))
        return made[-1]

    yield make
    for daemon in made:
        daemon.remove()


@pytest.fixture
def start_daemon(make_daemon):
    """Starts one and waits until it takes pages."""
    def begin(name="node", **settings):
        daemon = make_daemon(name, **settings).start()
        daemon.log_has(r"\bchunk_ready\b")
        return daemon

    return begin
