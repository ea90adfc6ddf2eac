# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever fails in the linker itself, SGLang hears of a miss or of a failed load, on all
ranks alike; nothing of before is used and nothing is left.

Method: an engine of numpy memory (linker_scene.py) and a real daemon; parts of the linker that
raise when the test wants it. K1, K2.
"""
import pytest
from linker_scene import (
    OTHERS, PAGES, Engine, HybridPool, loading_threads, loads_right, sessions, wait_until)
from linker_scene import eight_keys as keys

from kvsidecar.sglang import linker_side


@pytest.fixture
def engine(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as made:
        yield made


def raises(*_, **__):
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize("name, arguments, answer", [
    ("lookup", ("r", []), []), ("load", ("r", []), False), ("start_layer_wise_loading", (), -1),
    ("finish_layer_wise_loading", (0,), False), ("cancel_queued_load", ("r",), False),
    ("offload", ([],), False), ("num_completed_offloads", (), 0),
    ("pop_completed_offload", (), False), ("reset", (), None), ("close", (), None)])
def test_no_call_raises_and_what_it_answers_is_the_safe_side(engine, monkeypatch, caplog, name,
                                                             arguments, answer):
    with monkeypatch.context() as patch:
        for attribute in ("lookup", "load", "start", "finish", "cancel", "offload",
                          "completed_offloads", "pop_offload", "reset", "close"):
            patch.setattr(engine.linker._side, attribute, raises)
        assert getattr(engine.linker, name)(*arguments) == answer
        assert getattr(engine.linker, name)(*arguments) == answer
    assert caplog.text.count("said once") == 1


def test_a_start_that_fails_ends_its_requests_and_no_other(engine, monkeypatch):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    with monkeypatch.context() as patch:
        patch.setattr(engine.linker.layer_done_counter, "update_producer", raises)
        index = engine.linker.start_layer_wise_loading()
    assert index == -1, "the forward waits for nothing"
    assert not engine.linker.finish_layer_wise_loading(index)
    assert engine.linker.finish_layer_wise_loading(-1)
    assert loads_right(engine, "next")


def test_events_that_cant_be_had_end_an_offload_in_its_turn(engine, monkeypatch):
    engine.fill(1)
    monkeypatch.setattr(engine.linker._side._device, "offload_ready", raises)
    assert engine.offload(keys(), PAGES), "as on the other ranks"
    assert engine.linker.num_completed_offloads() == 1
    assert not engine.linker.pop_completed_offload()


def test_an_offload_that_is_lost_is_told(engine):
    engine.fill(1)
    assert engine.offload(keys(), PAGES)
    engine.linker._side._offloads._pending[0].puts[0].op.result = raises
    assert wait_until(engine.linker.num_completed_offloads) == 1, "or they were locked for good"
    assert not engine.linker.pop_completed_offload()


def test_a_reset_that_fails_leaves_nothing_to_load_until_one_succeeds(daemon, tmp_path,
                                                                      monkeypatch):
    with Engine(tmp_path / "model", daemon.socket, on_reset="keep") as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys())
        assert engine.offload(keys("pending"), OTHERS)
        with monkeypatch.context() as patch:
            patch.setattr(engine.linker._side._loads, "quiesce", raises)
            engine.linker.reset()
        assert engine.linker.num_completed_offloads() == 0
        assert engine.lookup(keys()) == []
        assert not engine.offloaded(keys("new"), PAGES)
        assert not engine.load(keys(), OTHERS)
        engine.linker._side._alone = False
        assert engine.load(keys(), OTHERS), "as on the other ranks"
        assert engine.forward() == (0, False)
        engine.linker.reset()
        assert loads_right(engine, "after")


def test_a_close_that_fails_leaves_no_thread_and_no_session(daemon, tmp_path, monkeypatch):
    engine = Engine(tmp_path / "model", daemon.socket)
    assert len(loading_threads()) == 1 and sessions(daemon) == 1
    monkeypatch.setattr(engine.linker._side._loads, "quiesce", raises)
    engine.linker.close()
    assert not loading_threads()
    wait_until(lambda: sessions(daemon) == 0)


def test_a_start_of_the_linker_that_fails_leaves_no_session(daemon, tmp_path, monkeypatch):
    monkeypatch.setattr(linker_side, "attach", raises)
    with pytest.raises(RuntimeError):
        Engine(tmp_path / "model", daemon.socket)
    assert not loading_threads()
    wait_until(lambda: sessions(daemon) == 0)


def test_after_the_end_a_rank_of_several_queues_no_load_that_nobody_would_end(engine):
    engine.linker._side._alone = False
    engine.linker.close()
    assert not engine.load(keys(), OTHERS)
    assert engine.linker.start_layer_wise_loading() == -1


def test_a_rank_of_several_without_its_daemon_fails_the_load_that_the_others_do(daemon, engine):
    engine.linker._side._alone = False
    daemon.kill()
    wait_until(lambda: not engine.linker._side.session.connected)
    assert engine.load(keys(), OTHERS), "as on the other ranks"
    assert engine.forward() == (0, False)
    daemon.start()


def test_a_load_that_leaves_a_pool_out_is_refused(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, HybridPool(64)) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES, swa=[3, 4], mamba=5)
        assert engine.found(keys()) == [8]
        assert not engine.load(keys(), OTHERS, swa=[40, 41]), "its state would be anything"
        assert engine.load(keys(), OTHERS, swa=[40, 41], mamba=6) and engine.forward()[1]
