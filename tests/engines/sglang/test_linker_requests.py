# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator or a client does while loads run costs nobody else anything: an abort, a
flush of the cache, a prompt that is computed in chunks, a daemon that stands still.

Method: whole engines with kvsidecar.sglang.Linker and a real daemon; the scheduler stands before a
load (linker_double) while the command is on its way. K2.
"""
import os

import pytest
from engine import prompt
from linker_bed import (
    ABORTED, LONG, LONG_PAGES, PAGE, PROMPTS, STANDS_S, Watch, flags, same, wait_for_hits)
from waiting import eventually

ALL = LONG_PAGES * PAGE
OTHERS = [prompt(6, 300), prompt(7, 40)]
PATIENCE = dict(load_timeout_s=0.5, store_timeout_s=0.5)


@pytest.fixture
def watch(tmp_path):
    return Watch(tmp_path)


class Scene:
    """An engine whose pages are stored and not on the device, and that stands before the load of
    LONG."""

    def __init__(self, engine, daemon, watch, **more):
        self.engine, self.daemon, self.watch = engine, daemon, watch
        engine.start("llama", **more, **flags(daemon, watch, **PATIENCE))
        engine.generate(PROMPTS)
        watch.all_stored()
        engine.flush_cache()

    def submit(self):
        self.watch.make("armed")
        self.engine.submit({"loading": LONG})
        eventually(lambda: os.path.exists(self.watch.paths["reached"]), "a load",
                   seconds=STANDS_S)
        self.watch.remove("armed")

    def go_on(self):
        self.watch.open_gate()


@pytest.fixture
def make_scene(engine, start_daemon, watch):
    return lambda **more: Scene(engine, start_daemon(), watch, **more)


@pytest.mark.parametrize("stopped", [False, True])
def test_an_abort_of_a_request_whose_load_runs(stopped, make_scene, engine, reference, watch):
    want = reference("llama", PROMPTS + OTHERS)
    scene = make_scene()
    scene.submit()
    engine.submit(dict(zip(("a", "b"), OTHERS)))
    engine.abort("loading")
    if stopped:
        scene.daemon.pause()
    scene.go_on()
    aborted, *others = engine.collect("loading", "a", "b")
    assert "abort" in aborted.reason.lower() or ABORTED in aborted.reason
    assert same(others, want[len(PROMPTS):])
    if stopped:
        scene.daemon.resume()
    assert same(engine.generate(PROMPTS), want[:len(PROMPTS)])
    wait_for_hits(engine, watch, want)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_flush_while_a_load_runs(stopped, make_scene, engine, reference, watch):
    want = reference("llama", PROMPTS)
    scene = make_scene()
    scene.submit()
    if stopped:
        scene.daemon.pause()
    engine.begin("flush_cache")
    scene.go_on()
    engine.answer()  # SGLang refuses it while the request runs
    output = engine.collect("loading")
    if stopped:
        assert ABORTED in output[0].reason
        scene.daemon.resume()
    else:
        assert same(output, want[:1]) and output[0].cached == ALL
    watch.all_stored()
    engine.flush_cache()
    wait_for_hits(engine, watch, want)


def test_requests_beside_one_whose_load_stands_still_go_on(make_scene, engine, reference, watch):
    want = reference("llama", PROMPTS + OTHERS)
    scene = make_scene()
    scene.submit()
    engine.submit(dict(zip(("a", "b"), OTHERS)))
    scene.daemon.pause()
    scene.go_on()
    lost, *others = engine.collect("loading", "a", "b")
    assert ABORTED in lost.reason and same(others, want[len(PROMPTS):])
    assert watch.counts()["failed_loads"] == 1
    scene.daemon.resume()
    wait_for_hits(engine, watch, want)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_prompt_that_is_computed_in_chunks_behind_its_load(stopped, make_scene, engine,
                                                              reference, watch):
    chunked = dict(chunked_prefill_size=2 * PAGE)
    longer = LONG[:ALL] + prompt(8, 500)
    want = reference("llama", PROMPTS + [longer])
    scene = make_scene(**chunked)
    watch.make("armed")
    engine.submit({"loading": longer})
    eventually(lambda: os.path.exists(watch.paths["reached"]), "a load", seconds=STANDS_S)
    watch.remove("armed")
    if stopped:
        scene.daemon.pause()
    scene.go_on()
    output = engine.collect("loading")
    if stopped:
        assert ABORTED in output[0].reason
        scene.daemon.resume()
    else:
        assert same(output, want[-1:]) and output[0].cached >= ALL
    assert same(engine.generate(PROMPTS), want[:-1])
    wait_for_hits(engine, watch, want)


def test_how_often_a_request_is_asked_about(engine, start_daemon, watch):
    """Once: "nothing yet" would be final, whatever comes a moment later."""
    daemon = start_daemon()
    engine.start("llama", **flags(daemon, watch))
    engine.generate([LONG])
    watch.all_stored()
    engine.flush_cache()
    before = watch.counts()
    watch.make("blind")
    output = engine.generate([LONG])
    watch.all_stored()
    assert output[0].cached == 0
    assert watch.counts()["lookups"] - before["lookups"] == 1
