# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons, engines, and what engines without a storage answer."""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TESTS, "harness"),
                os.path.join(os.path.dirname(TESTS), "clients", "python")]
sys.path.append(os.path.join(TESTS, "process"))

import engine_birth  # noqa: E402
from daemon_fixtures import make_daemon, start_daemon  # noqa: E402, F401
from engine import Engine  # noqa: E402


def pytest_collection_finish(session):
    """What engines need is imported while the first tests run without one."""
    if any("make_engine" in item.fixturenames or "reference" in item.fixturenames
           for item in session.items) and not session.config.option.collectonly:
        engine_birth.begin_import(os.path.join(os.environ["KVSIDECAR_LOGS"], "sglang-parent.log"))


@pytest.fixture
def make_engine(tmp_path):
    """Engine(**variables of its processes); nothing runs before its start()."""
    made = []

    def make(**environment):
        made.append(Engine(tmp_path, **environment))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine):
    return make_engine()


class References:
    """Answers of engines without a storage, each model's of one engine for all tests."""

    def __init__(self, folder):
        self.folder = folder
        self.engine = None
        self.running = None
        self.known = {}

    def __call__(self, model, prompts, max_new_tokens=8, **flags):
        """Outputs that were computed whole; flags as for Engine.start."""
        kind = json.dumps([model, flags], sort_keys=True)
        asked = json.dumps([kind, prompts, max_new_tokens])
        if asked not in self.known:
            if self.running != kind:
                self.engine = self.engine or Engine(self.folder)
                self.engine.start(model, **flags)
                self.running = kind
            self.engine.flush_cache()
            self.known[asked] = self.engine.generate(prompts, max_new_tokens)
        return self.known[asked]


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    references = References(str(tmp_path_factory.mktemp("reference")))
    yield references
    if references.engine:
        references.engine.close()
