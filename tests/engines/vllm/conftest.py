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
sys.path.append(os.path.join(TESTS, "process"))

from daemon import built  # noqa: E402

os.environ.setdefault("KVSIDECAR_LIBRARY", built("libkvsidecar-client.so.0"))

import accounts  # noqa: E402
from daemon_fixtures import make_daemon, start_daemon  # noqa: E402, F401
from engine import Engine  # noqa: E402
from waiting import eventually  # noqa: E402

BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16")


def pytest_collection_modifyitems(items):
    """What the CPU can't compute is skipped, and so counted."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        told = file.read()
    if any(flag in told for flag in BFLOAT16_FLAGS):
        return
    for item in items:
        if "qwen3next" in item.name:
            item.add_marker(pytest.mark.skip(reason="linear attention needs AVX512-BF16 or AMX"))


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


class References:
    """Answers of engines without a connector, of one process for all tests."""

    def __init__(self, folder):
        self.folder = folder
        self.engine = None
        self.running = None
        self.known = {}

    def __call__(self, model, prompts, max_tokens=16, sampling=None, **flags):
        """Outputs; `flags` as for Engine.start. With their leads where the model is computed in
        bfloat16."""
        if flags.get("dtype") == "bfloat16":
            sampling = {**(sampling or {}), "logprobs": 2}
        kind = json.dumps([model, flags], sort_keys=True)
        asked = json.dumps([kind, prompts, max_tokens, sampling], sort_keys=True)
        if asked not in self.known:
            if self.engine is None:
                self.engine = Engine(self.folder)
            if self.running != kind:
                self.engine.start(model, **flags)
                self.running = kind
            self.known[asked] = self.engine.generate(prompts, max_tokens, **(sampling or {}))
        return self.known[asked]


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    references = References(str(tmp_path_factory.mktemp("reference")))
    yield references
    if references.engine:
        references.engine.close()


def is_quiet(daemon):
    now = accounts.status(daemon)
    return not (now["operations"] or now["fetches"])


@pytest.fixture
def settle():
    """Waits until an engine has nothing left to do and its daemon has everything that was put."""
    def wait(daemon, engine=None):
        if engine is not None:
            engine.check_blocks()
        eventually(lambda: is_quiet(daemon), "the daemon is quiet", pid=daemon.pid)
        return accounts.status(daemon)["counters"]

    return wait
