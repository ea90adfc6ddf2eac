# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that step vLLM's scheduler: a daemon, engines on it, what goes wrong."""
import random

import pytest

import kvsidecar
from daemon import Daemon
from rig import FULL, HYBRID, PAGE, Rig
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from waiting import eventually

SEVERAL_MAY_FAIL = hasattr(base, "KVConnectorTransferResults")
GROUPS = [pytest.param(FULL, id="full"), pytest.param(HYBRID, id="hybrid", marks=pytest.mark.skipif(
    not SEVERAL_MAY_FAIL, reason="before 0.30 models with several groups only store"))]


def prompt(seed, tokens):
    words = random.Random(seed)
    return [words.randrange(3, 500) for _ in range(tokens)]


def whole(prompts):
    """Tokens of them that can be found: whole pages before the last token."""
    return sum((len(p) - 1) // PAGE * PAGE for p in prompts)


@pytest.fixture(autouse=True)
def seed(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path) as found:
        yield found


@pytest.fixture
def make_rig(daemon, model):
    made = []

    def make(extra=None, role="kv_both", kind=Rig, **values):
        made.append(kind(dict(
            kv_connector="Connector", kv_connector_module_path="kvsidecar.vllm", kv_role=role,
            kv_connector_extra_config={"socket": daemon.socket, "lookup_deadline_ms": 10_000,
                                       **(extra or {})}), model, **values))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def settle(daemon):
    """Waits until nothing is under way in the daemon; its counters."""
    def wait():
        with kvsidecar.Client(daemon.socket) as asker:
            def still():
                now = asker.stat().result().json()
                return now if now["operations"] == now["fillings"] == 0 else None

            return eventually(still, "nothing is under way")["counters"]

    return wait


@pytest.fixture
def filled(make_rig, settle):
    """Has prompts computed, so that the daemon has all their pages."""
    def fill(prompts, **values):
        rig = make_rig(**values)
        rig.generate(prompts)
        settle()
        rig.close()
        return prompts

    return fill


def forget(rig, request_id, keep=0):
    """Deletes a request's pages but the first `keep` from the daemon, behind its connector's
    back."""
    side = rig.connector._scheduler
    track = side._requests.tracks[request_id]
    for space in side._spaces:
        keys = track.keys[space.tokens_per_page]
        if keys.count > keep:
            side.session.client.delete(side.session.namespaces[space.group],
                                       keys.part(keep, keys.count),
                                       key_bytes=keys.key_bytes).wait()
