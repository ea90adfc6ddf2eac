# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons, engines, and what engines without a connector answer."""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TESTS, "harness"),
                os.path.join(os.path.dirname(TESTS), "clients", "python")]

from daemon import Daemon, built  # noqa: E402

os.environ.setdefault("KVSIDECAR_LIBRARY", built("libkvsidecar-client.so.0"))

from engine import Engine, ids  # noqa: E402


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


@pytest.fixture
def daemon(start_daemon):
    return start_daemon()


@pytest.fixture
def make_engine(tmp_path):
    made = []

    def make(**settings):
        made.append(Engine(str(tmp_path), **settings))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine):
    return make_engine()
