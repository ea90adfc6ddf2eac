# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine with door B answers as one without it, whatever becomes of the daemon, and
doesn't compute what is stored.

Method: whole engines on a CPU with kvsidecar.sglang.Linker and a real daemon; the same prompts with
and without; the daemon killed and stopped while the scheduler stands before a load (linker_double).
"""
import os
import shutil
import sys

import pytest
from engine import EngineFailed, model_path, prompt
from linker_bed import (
    ABORTED, LONG, LONG_PAGES, PAGE, PROMPTS, RESTORABLE, STANDS_S, Watch, flags, same,
    wait_for_hits)
from waiting import eventually

# Behind all others: engines of the other kind have modules of the same names.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vllm"))

from copies import AtCopy, claim_words  # noqa: E402

KILLS = 4


@pytest.fixture
def watch(tmp_path):
    return Watch(tmp_path)


@pytest.mark.parametrize("model", ["llama", "mellum"])
def test_an_engine_answers_as_one_without(model, engine, start_daemon, reference, watch):
    want = reference(model, PROMPTS)
    daemon = start_daemon()
    engine.start(model, **flags(daemon, watch))
    assert same(engine.generate(PROMPTS), want)
    watch.all_stored()
    assert watch.counts()["not_stored"] == 0
    engine.flush_cache()
    restored = []
    for one, wanted in zip(PROMPTS, want):
        output = engine.generate([one])
        assert same(output, [wanted])
        assert output[0].cached == output[0].sources.get("host", 0)
        restored.append(output[0].cached)
        engine.flush_cache()
    assert restored == RESTORABLE
    assert same(engine.generate(PROMPTS), want), "several loads before one forward"
    engine.flush_cache()
    watch.make("poison")
    poisoned = engine.generate([LONG])
    assert poisoned[0].cached == LONG_PAGES * PAGE and not same(poisoned, want[:1])


def test_an_engine_that_is_short_of_memory_loads_what_it_has_evicted(engine, start_daemon,
                                                                     reference, watch):
    chats = [prompt(20 + i % 4, 400) + prompt(40 + i, 200 + 30 * i) for i in range(8)]
    want = reference("llama", chats)
    daemon = start_daemon()
    engine.start("llama", max_total_tokens=1536, **flags(daemon, watch))
    for _ in range(2):
        assert same(engine.generate(chats), want)
    watch.all_stored()
    counts = watch.counts()
    assert counts["loads"] > 0 and counts["failed_loads"] == counts["not_stored"] == 0


def test_pages_outlive_the_engine_and_serve_another(engine, start_daemon, reference, watch):
    want = reference("llama", PROMPTS)
    daemon = start_daemon()
    engine.start("llama", **flags(daemon, watch))
    engine.generate([LONG])
    watch.all_stored()
    engine.kill()
    engine.start("llama", **flags(daemon))
    output = engine.generate([LONG])
    assert same(output, want[:1]) and output[0].cached == LONG_PAGES * PAGE


def test_a_flush_detaches_by_default(engine, start_daemon, reference, watch):
    want = reference("llama", PROMPTS)
    daemon = start_daemon()
    chosen = flags(daemon, watch)
    del chosen["unified_cache_external_linker_config"]["linker_extra_config"]["on_reset"]
    engine.start("llama", **chosen)
    engine.generate([LONG])
    watch.all_stored()
    engine.flush_cache()
    output = engine.generate([LONG])
    assert same(output, want[:1]) and output[0].cached == 0, "what was stored before"
    watch.all_stored()


def test_other_weights_under_the_same_name_load_nothing(engine, start_daemon, reference, watch,
                                                        tmp_path):
    want = reference("llama", PROMPTS)
    daemon = start_daemon()
    name = str(tmp_path / "model")
    shutil.copytree(model_path("llama"), name)
    engine.start(name, **flags(daemon, watch))
    assert same(engine.generate([LONG]), want[:1])
    watch.all_stored()
    engine.close()
    shutil.rmtree(name)
    shutil.copytree(model_path("llama-other"), name)
    engine.start(name, **flags(daemon, watch))
    output = engine.generate([LONG])
    assert output[0].cached == 0 and not same(output, want[:1])


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_load_that_is_lost_ends_its_requests_and_no_other(fault, engine, start_daemon, reference,
                                                            watch):
    new = [prompt(6, 300), prompt(7, 40)]
    want = reference("llama", PROMPTS + new)
    daemon = start_daemon()
    engine.start("llama", **flags(daemon, watch, load_timeout_s=0.5, store_timeout_s=0.5))
    engine.generate(PROMPTS)
    watch.all_stored()
    engine.flush_cache()
    watch.make("armed")
    engine.begin_generate(PROMPTS + new)
    eventually(lambda: os.path.exists(watch.paths["reached"]), "a load", seconds=STANDS_S)
    getattr(daemon, fault)()
    watch.remove("armed")
    watch.open_gate()
    outputs = engine.outputs()
    lost = [output for output in outputs if ABORTED in output.reason]
    assert len(lost) == watch.loading() > 0
    assert all(output in lost or same([output], [wanted])
               for output, wanted in zip(outputs, want))
    assert not any(output in lost for output in outputs[len(PROMPTS) - 1:]), "nothing was stored"
    assert same(engine.generate(PROMPTS), want[:len(PROMPTS)]), "the engine goes on"
    assert watch.counts()["failed_loads"] == 1
    if fault == "pause":
        daemon.resume()
    else:
        daemon.start()
    wait_for_hits(engine, watch, want)


def test_a_daemon_that_is_killed_while_it_copies(engine, start_daemon, reference, watch):
    chats = [prompt(20 + i % 3, 400) + prompt(60 + i, 100 + 30 * i) for i in range(6)]
    want = reference("llama", chats)
    daemon = start_daemon(copy={"threads": 1, "inline_bytes": 0})
    engine.start("llama", max_total_tokens=1536,
                 **flags(daemon, watch, load_timeout_s=2, store_timeout_s=2))
    seen = 0
    for _ in range(KILLS):
        eventually(lambda: claim_words(daemon), "the engine is attached", seconds=STANDS_S)
        with AtCopy(daemon, daemon.process.kill) as at_copy:
            outputs = engine.generate(chats)
        assert all(ABORTED in output.reason or same([output], [wanted])
                   for output, wanted in zip(outputs, want))
        seen += at_copy.seen
        if at_copy.seen:
            daemon.kill()
            daemon.start().log_has(r"\bchunk_ready\b")
    assert seen
    assert same(engine.generate(chats), want)


def test_an_engine_whose_daemon_stands_still_goes_on(engine, start_daemon, reference, watch):
    want = reference("llama", PROMPTS)
    daemon = start_daemon()
    engine.start("llama", **flags(daemon, watch, store_timeout_s=0.5))
    engine.generate(PROMPTS[:2])
    watch.all_stored()
    engine.flush_cache()
    daemon.pause()
    assert same(engine.generate(PROMPTS), want)
    watch.all_stored()
    engine.flush_cache()
    assert same(engine.generate(PROMPTS), want)
    daemon.resume()


def test_an_engine_without_a_daemon_serves_and_attaches_later(engine, make_daemon, reference,
                                                              watch):
    want = reference("llama", PROMPTS)
    daemon = make_daemon()
    engine.start("llama", **flags(daemon, watch, connect_timeout_s=0.01, attach_timeout_s=0.01))
    assert same(engine.generate(PROMPTS), want)
    watch.all_stored()
    assert watch.counts()["not_stored"] == watch.counts()["offloads"] > 0
    assert engine.log().count("no daemon takes this engine") == 1
    engine.flush_cache()
    daemon.start().log_has(r"\bchunk_ready\b")
    eventually(lambda: "the linker stores" in engine.log(), "its log tells", seconds=STANDS_S)
    assert engine.log().count("connected to the daemon at") == 1
    wait_for_hits(engine, watch, want)


@pytest.mark.parametrize("extra, said", [({"on_reset": "sometimes"}, "on_reset"),
                                         ({"lease": 3}, "did you mean lease_s")])
def test_an_engine_with_a_wrong_key_doesnt_start(engine, extra, said):
    chosen = flags("/nowhere", **{"connect_timeout_s": 0.01})
    chosen["unified_cache_external_linker_config"]["linker_extra_config"].update(extra)
    with pytest.raises(EngineFailed, match=said):
        engine.start("llama", **chosen)
