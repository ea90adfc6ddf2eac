# SPDX-License-Identifier: Apache-2.0
"""Goal: pages of two versions of the weights never meet, also where SGLang's cache wasn't flushed
between them; the namespaces that resets lead to are empty, few, and the same on all ranks.

Method: an engine of numpy memory (linker_scene.py) and a real daemon; SGLang's weight_version is
changed as its scheduler changes it. Names of namespaces over a session that writes them down. K1.
"""
from types import SimpleNamespace

import pytest
import sglang.srt.runtime_context as runtime
from linker_scene import Engine, MHATokenToKVPool, hashes, wait_until

from kvsidecar import Client
from kvsidecar.sglang.linker_lives import ROUND, Lives

PAGES, OTHERS = list(range(1, 9)), list(range(21, 29))
CHANGES = 3 * ROUND


def keys(seed="prompt"):
    return hashes(len(PAGES), seed)


def weights(version):
    runtime.get_context()._resolved["weight_version"] = version


def served(engine, seed):
    """What it stores now it loads again."""
    engine.fill(seed)
    want = engine.read(PAGES)
    wait_until(lambda: engine.offloaded(keys(), PAGES))
    assert engine.found(keys(), f"served {seed}") and engine.load(keys(), OTHERS,
                                                                  rid=f"served {seed}")
    assert engine.forward()[1]
    return all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


# A version that SGLang is told with the weights.


@pytest.mark.parametrize("on_reset", ["detach", "clear", "keep"])
def test_weights_of_another_version_meet_no_page_of_before(daemon, tmp_path, on_reset):
    weights("1")
    with Engine(tmp_path / "model", daemon.socket, on_reset=on_reset) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys())
        weights("2")
        assert engine.lookup(keys()) == [], "also of the request that was told before"
        assert not engine.offloaded(keys("computed by both"), PAGES)
        engine.linker.reset()
        assert engine.lookup(keys(), "after the reset") == []
        assert served(engine, 2)


def test_pages_of_weights_that_werent_flushed_arent_stored_for_those_of_before(daemon, tmp_path):
    weights("1")
    with Engine(tmp_path / "model", daemon.socket) as engine, \
            Engine(tmp_path / "model", daemon.socket) as other:
        weights("2")
        engine.fill(2)
        assert not engine.offloaded(keys(), PAGES)
        weights("1")
        assert other.lookup(keys()) == []


def test_weights_that_return_are_used_again_after_a_reset(daemon, tmp_path):
    weights("1")
    with Engine(tmp_path / "model", daemon.socket, on_reset="keep") as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        for version in ("2", "1"):
            weights(version)
            assert engine.lookup(keys()) == []
        engine.linker.reset()
        assert wait_until(lambda: engine.lookup(keys(), "again")) == list(range(1, 9))


def test_engines_that_start_with_the_same_version_share(daemon, tmp_path):
    weights("7")
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        with Engine(tmp_path / "model", daemon.socket) as other:
            assert other.found(keys()) == list(range(1, 9))
        weights("8")
        with Engine(tmp_path / "model", daemon.socket) as other:
            assert other.lookup(keys()) == []


# Namespaces of its own.


def status(engine):
    return engine.linker._side.session.client.stat().result().json()


def test_resets_leave_no_namespace_behind_each(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, MHATokenToKVPool(40, row_bytes=16)) as engine:
        lives = engine.linker._side._lives
        for seed in range(CHANGES):
            engine.linker.reset()
            wait_until(lambda: all(op.finished for ops in lives._clears.values() for op in ops))
            assert engine.lookup(keys(), f"reset {seed}") == []
            assert served(engine, seed)
        assert status(engine)["namespaces"] <= ROUND + 1


def test_an_engine_whose_own_pages_somebody_clears_goes_on_at_once(daemon, tmp_path, caplog):
    with Engine(tmp_path / "model", daemon.socket) as engine, Client(daemon.socket) as operator:
        engine.linker.reset()
        assert served(engine, 1)
        own = engine.linker._side.session.namespace("kv").namespace_id
        assert operator.clear(own).result().ok
        assert engine.lookup(keys(), "cleared") == []
        assert served(engine, 2)
    assert "somebody else" not in caplog.text


class Names:
    """A session that writes down where it was sent; clears of what was left end as told."""

    def __init__(self, cleared=True):
        self.entered = []
        self.cleared = cleared
        self.clears = 0
        self.client = self

    def spaces(self):
        return [("kv", None), ("swa", None)]

    def namespace(self, name):
        return name

    def clear(self, namespace, timeout):
        self.clears += 1
        return SimpleNamespace(finished=True, result=lambda: SimpleNamespace(ok=self.cleared))

    def enter(self, name):
        self.entered.append(name)


def after(session, resets, own="start"):
    lives = Lives(session, own)
    for _ in range(resets):
        lives.next()
    return session.entered


def test_namespaces_are_used_again_when_they_are_known_to_be_empty():
    entered = after(Names(), CHANGES)
    assert entered[:ROUND] * 3 == entered and len(set(entered)) == ROUND


def test_namespaces_that_couldnt_be_cleared_are_left_for_good():
    assert len(set(after(Names(cleared=False), CHANGES))) == CHANGES


def test_a_clear_that_hasnt_ended_is_none():
    session = Names()
    session.clear = lambda namespace, timeout: SimpleNamespace(finished=False)
    assert len(set(after(session, CHANGES))) == CHANGES


def test_ranks_that_know_different_things_meet_in_the_namespaces_of_the_same_reset_only():
    sure, unsure = after(Names(), CHANGES), after(Names(cleared=False), CHANGES)
    where = {}
    for number, name in enumerate(sure):
        where.setdefault(name, set()).add(number)
    for number, name in enumerate(unsure):
        assert name not in where or number < ROUND and number in where[name]


def test_another_start_of_the_engine_has_other_namespaces():
    assert not set(after(Names(), CHANGES)) & set(after(Names(), CHANGES, "another start"))
    assert "" not in after(Names(), CHANGES, "")


def test_namespaces_that_are_shared_are_neither_cleared_nor_attached_anew():
    session = Names()
    lives = Lives(session, "start")
    assert not lives.again() and session.entered == []
    lives.next()
    assert session.clears == 0
    assert lives.again() and session.entered[0] == session.entered[1]
    lives.next()
    assert session.clears == 2
