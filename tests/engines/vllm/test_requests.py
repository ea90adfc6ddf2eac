# SPDX-License-Identifier: Apache-2.0
"""Goal: requests may be preempted, aborted in any state, forked, cut into chunks or guessed ahead:
answers are those of an engine without a connector, and no block is leaked.

Method: an engine that is stepped; outputs are compared, free blocks are counted. What vLLM's own
tests of connectors check (blocks freed after an abort while loading, each id told once, preempted
requests resumed with new blocks) shows itself here in a real scheduler. (Bug reports O1-12, O2-11,
O3-10.)
"""
import pytest

import workload
from engine import MEBIBYTE, check_same, connector, external_hits, ids, prompt

SCARCE = dict(max_model_len=512, kv_cache_memory_bytes=24 * 64 * 1024)  # 24 blocks


def test_preempted_requests_go_on(engine, daemon, reference, settle):
    prompts = [prompt(20 + i, 150) for i in range(4)]
    expected = ids(reference("llama", prompts, max_tokens=120))
    for _ in range(2):  # an empty daemon, a warm one
        engine.start("llama", connector(daemon.socket), **SCARCE)
        assert ids(engine.generate(prompts, 120)) == expected
        assert engine.metrics()["vllm:num_preemptions"] > 0
        settle(daemon, engine)
    assert external_hits(engine.metrics()) > 0



@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_a_request_may_be_aborted_in_any_state(model, engine, daemon, reference, settle):
    prompts = workload.chats(5)
    expected = ids(reference(model, prompts))
    engine.start(model, connector(daemon.socket))
    engine.generate(prompts[:3])
    settle(daemon, engine)
    for until in ("never", "loading", "running"):
        assert engine.call("reset_prefix_cache", connector=False)
        named = {f"{until}{i}": words for i, words in enumerate(prompts)}
        engine.add(named)
        if until != "never":
            assert engine.step(until) is not None
        victims = [name for name in named if until in ("never", "running") or
                   engine.states().get(name) == "WAITING_FOR_REMOTE_KVS"][:3]
        assert victims
        engine.abort(*victims)
        assert engine.step("ended") is not None
        told = engine.take()
        for name, right in zip(named, expected):
            if name not in victims:
                assert told[name].ids == right, name
        settle(daemon, engine)


def test_an_aborted_preempted_request_leaks_nothing(engine, daemon, settle):
    engine.start("llama", connector(daemon.socket), **SCARCE)
    engine.add({f"r{i}": prompt(20 + i, 150) for i in range(4)}, 120)
    assert engine.step("preempting") is not None
    preempted = [name for name, state in engine.states().items() if state == "PREEMPTED"]
    engine.abort(*(preempted or ["r3"]))
    assert engine.step("ended") is not None
    settle(daemon, engine)


def test_several_answers_to_a_prompt(engine, daemon, reference, settle):
    prompts = workload.chats(4)
    sampling = dict(n=3, temperature=0.8, seed=11)
    expected = ids(reference("llama", prompts, sampling=sampling))
    for _ in range(2):
        engine.start("llama", connector(daemon.socket))
        assert ids(engine.generate(prompts, **sampling)) == expected
        settle(daemon, engine)
    assert external_hits(engine.metrics()) > 0


@pytest.mark.parametrize("model", ["llama", "gemma3", "qwen3next"])
def test_prompts_in_chunks(model, engine, daemon, reference, settle):
    flags = dict(dtype="bfloat16") if model == "qwen3next" else {}
    prompts = [prompt(300 + i, 700) for i in range(4)] + workload.chats(4)
    expected = reference(model, prompts, **flags)
    for _ in range(2):
        engine.start(model, connector(daemon.socket), max_num_batched_tokens=128,
                     enable_chunked_prefill=True, **flags)
        check_same(engine.generate(prompts), expected)
        settle(daemon, engine)
    assert external_hits(engine.metrics()) >= 4 * 640


def test_guessed_tokens(engine, daemon, reference, settle):
    """N-gram speculation: blocks hold tokens that are taken back."""
    prompts = [prompt(i, 40) * 5 for i in range(4)] + workload.chats(4)
    expected = ids(reference("llama", prompts, max_tokens=64))
    guess = dict(method="ngram", num_speculative_tokens=3, prompt_lookup_max=3)
    engine.start("llama", connector(daemon.socket), speculative_config=guess)
    for _ in range(2):
        assert ids(engine.generate(prompts, 64)) == expected
        settle(daemon, engine)
        assert engine.call("reset_prefix_cache", connector=False)
    metrics = engine.metrics()
    assert external_hits(metrics) > 0
    assert metrics["vllm:spec_decode_num_draft_tokens"] > 0


@pytest.mark.parametrize("model", ["llama", "gemma3", "qwen3next"])
def test_steps_that_are_scheduled_ahead(model, engine, daemon, reference, settle):
    """Asynchronous scheduling: a step is built before the outputs of the one before are known."""
    flags = dict(dtype="bfloat16") if model == "qwen3next" else {}
    prompts = workload.shared_prefixes(30)
    expected = reference(model, prompts, **flags)
    engine.call("schedule_ahead")
    for _ in range(2):
        begun = engine.start(model, connector(daemon.socket), **flags)
        assert begun["async_scheduling"]
        check_same(engine.generate(prompts), expected)
        settle(daemon, engine)
    assert external_hits(engine.metrics()) > 0


def test_processes_of_their_own(make_engine, daemon, reference, settle):
    """Scheduler and worker apart, as vLLM has them by default."""
    prompts = workload.shared_prefixes(40)
    expected = ids(reference("llama", prompts))
    engine = make_engine(split=True)
    for _ in range(2):
        engine.start("llama", connector(daemon.socket))
        outputs = engine.generate(prompts)
        assert ids(outputs) == expected
        settle(daemon)
    assert [output.cached for output in outputs] == [(len(p) - 1) // 32 * 32 for p in prompts]


def test_memory_is_too_small_for_nothing(engine, daemon, reference, settle):
    """More pages than the host pool holds: some are gone when they are asked for."""
    prompts = [prompt(900 + i, 1000) for i in range(40)]
    expected = ids(reference("llama", prompts, max_tokens=2))
    assert 40 * 31 * 64 * 1024 > 64 * MEBIBYTE
    engine.start("llama", connector(daemon.socket))
    for _ in range(2):
        assert ids(engine.generate(prompts, 2)) == expected
        engine.call("reset_prefix_cache", connector=False)
    settle(daemon, engine)
