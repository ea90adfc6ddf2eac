# SPDX-License-Identifier: Apache-2.0
"""Goal: weights that are updated in a running engine, under the same name, load no page of those
before; what on_reset says decides who finds what afterwards.

Method: whole engines with kvsidecar.sglang.Linker and a real daemon; weights from disk and as
tensors, with and without a flush and a weight_version; another engine on the same daemon, and
answers of engines that had the weights from the start. K1.
"""
import pytest
from engine import model_path
from linker_bed import LONG, LONG_PAGES, PAGE, Watch, flags, same

ALL = LONG_PAGES * PAGE
OLD, NEW = "llama", "llama-other"


@pytest.fixture
def watch(tmp_path):
    return Watch(tmp_path)


@pytest.fixture
def want(reference):
    """Answers to LONG by the weights of before and by those of after."""
    return {name: reference(name, [LONG]) for name in (OLD, NEW)}


def answer(engine, watch):
    """The output for LONG when it isn't in the device's cache; what it adds is stored."""
    output = engine.generate([LONG])
    watch.all_stored()
    return output


def start(engine, daemon, watch, on_reset):
    engine.start(OLD, **flags(daemon, watch, on_reset=on_reset))


@pytest.mark.parametrize("how", ["update_from_disk", "update_from_tensors"])
@pytest.mark.parametrize("on_reset", ["detach", "clear"])
def test_updated_weights_load_nothing_of_before(how, on_reset, engine, start_daemon, watch, want):
    start(engine, start_daemon(), watch, on_reset)
    assert same(answer(engine, watch), want[OLD])
    told = engine.call(how, path=model_path(NEW))
    assert told[0], told
    output = answer(engine, watch)
    assert same(output, want[NEW]) and output[0].cached == 0
    engine.begin_generate([LONG])
    assert same(engine.outputs(), want[NEW])


def test_keep_is_for_weights_that_never_change(engine, start_daemon, watch, want):
    """The control: these bytes do change what the engine says."""
    start(engine, start_daemon(), watch, "keep")
    answer(engine, watch)
    assert engine.call("update_from_disk", path=model_path(NEW))[0]
    output = answer(engine, watch)
    assert output[0].cached == ALL and not same(output, want[NEW])


def test_an_engine_with_the_weights_of_before_keeps_their_pages(make_engine, start_daemon, watch,
                                                                want, tmp_path):
    daemon = start_daemon()
    engine = make_engine()
    start(engine, daemon, watch, "detach")
    answer(engine, watch)
    assert engine.call("update_from_disk", path=model_path(NEW))[0]
    assert same(answer(engine, watch), want[NEW])
    engine.kill()
    start(engine, daemon, watch, "detach")
    output = engine.generate([LONG])
    assert same(output, want[OLD]) and output[0].cached == ALL


@pytest.mark.parametrize("on_reset", ["detach", "keep"])
def test_a_version_parts_weights_that_werent_flushed(on_reset, engine, start_daemon, watch, want):
    daemon = start_daemon()
    start(engine, daemon, watch, on_reset)
    answer(engine, watch)
    engine.flush_cache()
    assert engine.call("update_from_disk", path=model_path(NEW), version="2", flush=False)[0]
    stored = watch.counts()["stored"]
    output = answer(engine, watch)
    assert same(output, want[NEW]) and output[0].cached == 0
    assert watch.counts()["stored"] == stored, "nobody knows whose pages these are"
    engine.flush_cache()
    assert same(answer(engine, watch), want[NEW])
    assert watch.counts()["stored"] > stored
    engine.kill()
    start(engine, daemon, watch, on_reset)
    output = engine.generate([LONG])
    assert same(output, want[OLD])


def test_a_version_that_comes_with_a_flush_finds_its_own_pages_again(engine, start_daemon, watch,
                                                                     want):
    start(engine, start_daemon(), watch, "keep")
    answer(engine, watch)
    assert engine.call("update_from_disk", path=model_path(NEW), version="2")[0]
    output = answer(engine, watch)
    assert same(output, want[NEW]) and output[0].cached == 0
    engine.flush_cache()
    output = engine.generate([LONG])
    assert same(output, want[NEW]) and output[0].cached == ALL


def test_a_sleeping_engine_wakes_with_a_memory_that_is_its_own(engine, start_daemon, watch, want):
    start(engine, start_daemon(), watch, "keep")
    answer(engine, watch)
    engine.call("sleep")
    engine.call("wake")
    output = engine.generate([LONG])
    assert same(output, want[OLD]) and output[0].cached == ALL
