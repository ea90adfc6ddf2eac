# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine of two ranks answers as one without a storage, whatever one of them lacks, loses
or fails at; no rank waits for another's answer, and what a rank leaves in the daemon goes with it.

Method: whole engines with tp_size=2 and kvsidecar.sglang.Linker, each rank's linker told apart
(linker_double), a real daemon. K2.
"""
import os
import signal

import pytest
from engine import EngineFailed
from linker_bed import (
    ABORTED, LONG, LONG_PAGES, PAGE, PROMPTS, RESTORABLE, STANDS_S, Watch, flags, same)
from waiting import eventually

from kvsidecar import Client

ALL = LONG_PAGES * PAGE
RANKS = 2


class Both:
    """The watches over both ranks."""

    def __init__(self, folder):
        self.each = [Watch(folder, rank, RANKS) for rank in range(RANKS)]
        self.given = self.each[0].given

    def __getitem__(self, rank):
        return self.each[rank]

    def all_stored(self):
        for watch in self.each:
            watch.all_stored()

    def failed_loads(self):
        return [watch.counts()["failed_loads"] for watch in self.each]


@pytest.fixture
def watch(tmp_path):
    return Both(tmp_path)


@pytest.fixture
def want(reference):
    return reference("llama", PROMPTS, tp_size=RANKS)


def start(engine, daemon, watch, model="llama", **extra):
    """The schedulers' pids, rank by rank."""
    return engine.start(model, tp_size=RANKS, **flags(daemon, watch, **{
        "load_timeout_s": 1, "store_timeout_s": 1, **extra}))["schedulers"]


def stored(engine, watch):
    """All prompts' pages, and none is left on the device."""
    outputs = engine.generate(PROMPTS)
    watch.all_stored()
    engine.flush_cache()
    return outputs


def answered(engine, one, wanted):
    """How many tokens of that prompt were restored; its answer is right in any case."""
    output = engine.generate([one])
    assert same(output, [wanted])
    engine.flush_cache()
    return output[0].cached


def comes_back(engine, watch, want):
    """Both ranks store and load again."""
    def restored():
        engine.flush_cache()
        stored(engine, watch)
        return answered(engine, LONG, want[0]) == ALL

    eventually(restored, "pages are restored", seconds=STANDS_S)


def account(daemon):
    with Client(daemon.socket) as operator:
        return operator.stat().result().json()


@pytest.mark.parametrize("model", ["llama", "deepseek2"])
def test_two_ranks_answer_as_two_without(model, engine, start_daemon, reference, watch):
    want = reference(model, PROMPTS, tp_size=RANKS)
    daemon = start_daemon()
    start(engine, daemon, watch, model)
    assert same(stored(engine, watch), want)
    for one, wanted, tokens in zip(PROMPTS, want, RESTORABLE):
        eventually(lambda: answered(engine, one, wanted) == tokens, "pages are restored",
                   seconds=STANDS_S)
    engine.kill()
    start(engine, daemon, watch, model)
    eventually(lambda: answered(engine, LONG, want[0]) == ALL, "pages outlive the engine",
               seconds=STANDS_S)
    assert watch.failed_loads() == [0, 0]


@pytest.mark.parametrize("lacking", range(RANKS))
@pytest.mark.parametrize("what", ["mute", "blind"])
def test_what_one_rank_lacks_is_computed_by_both(what, lacking, engine, start_daemon, watch, want):
    start(engine, start_daemon(), watch)
    watch[lacking].make(what)
    stored(engine, watch)
    outputs = engine.generate(PROMPTS)
    assert same(outputs, want) and not any(
        output.sources.get("host") for output in outputs)
    watch[lacking].remove(what)
    comes_back(engine, watch, want)


@pytest.mark.parametrize("failing", range(RANKS))
def test_a_load_that_fails_on_one_rank_is_aborted_on_both(failing, engine, start_daemon, watch,
                                                          want):
    start(engine, start_daemon(), watch)
    stored(engine, watch)
    watch[failing].make("broken")

    def aborted():
        output = engine.generate([LONG])
        engine.flush_cache()
        ended = ABORTED in output[0].reason
        assert ended or same(output, want[:1])
        return ended

    eventually(aborted, "a load", seconds=STANDS_S)
    assert watch.failed_loads() == [int(rank == failing) for rank in range(RANKS)]
    watch[failing].remove("broken")
    comes_back(engine, watch, want)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_ranks_whose_daemon_is_lost_while_they_load(fault, engine, start_daemon, watch, want):
    daemon = start_daemon()
    start(engine, daemon, watch)
    stored(engine, watch)
    for rank in range(RANKS):
        watch[rank].make("armed")
    engine.begin_generate(PROMPTS)
    for rank in range(RANKS):
        eventually(lambda: os.path.exists(watch[rank].paths["reached"]), "a load",
                   seconds=STANDS_S)
    getattr(daemon, fault)()
    for rank in range(RANKS):
        watch[rank].remove("armed")
        watch[rank].open_gate()
    outputs = engine.outputs()
    lost = [output for output in outputs if ABORTED in output.reason]
    assert len(lost) == watch[0].loading() == watch[1].loading() > 0
    assert all(output in lost or same([output], [wanted])
               for output, wanted in zip(outputs, want))
    assert same(engine.generate(PROMPTS), want), "without a daemon"
    daemon.resume() if fault == "pause" else daemon.start()
    comes_back(engine, watch, want)


def test_ranks_detach_together(engine, start_daemon, watch, want):
    start(engine, start_daemon(), watch, on_reset="detach")
    for _ in range(3):
        output = engine.generate([LONG])
        watch.all_stored()
        assert same(output, want[:1]) and output[0].cached == 0
        engine.flush_cache()


@pytest.mark.parametrize("rank", range(RANKS))
def test_a_rank_that_is_killed_ends_the_engine_and_leaves_nothing(rank, engine, start_daemon, watch,
                                                                  want):
    daemon = start_daemon()
    pids = start(engine, daemon, watch)
    stored(engine, watch)
    watch[rank].make("armed")
    engine.begin_generate([LONG])
    eventually(lambda: os.path.exists(watch[rank].paths["reached"]), "a load", seconds=STANDS_S)
    os.kill(pids[rank], signal.SIGKILL)
    watch[rank].remove("armed")
    with pytest.raises(EngineFailed):
        engine.outputs()
    engine.close()

    def gone():
        told = account(daemon)
        return (told["sessions"], told["leases"]["count"], told["groups"]) == (1, 0, 0)

    eventually(gone, "nothing of the engine is left in the daemon", seconds=STANDS_S)
    start(engine, daemon, watch)
    eventually(lambda: answered(engine, LONG, want[0]) == ALL, "what both had stored",
               seconds=STANDS_S)
