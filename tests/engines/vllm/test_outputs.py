# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine answers the same with the connector as without it, and what it loads is really
used, whether it comes from this engine's life, an earlier one's, the daemon's memory or its store.

Method: the same prompts to an engine without a connector, to one on an empty daemon, to a fresh
engine on the warm daemon, and after the daemon was started anew on its store alone; token ids are
compared, and what vLLM itself counts as found. Then the pages are made by a model of the same shape
with other weights: outputs must change, or nothing was loaded. (Bug reports O2-09, O4-06, O4-08.)
"""
import pytest

import workload
from engine import check_same, connector, external_hits, ids
from waiting import eventually

# model: flags it needs
MODELS = {"llama": {}, "gemma3": {}, "gptoss": {}, "qwen3next": dict(dtype="bfloat16")}
BLOCK = {"qwen3next": 64}  # vLLM raises it there until a block holds the state
every_model = pytest.mark.parametrize("model", MODELS)


def restorable(prompt, block):
    """Words of a prompt that can come from a cache: whole blocks, without the last word."""
    return (len(prompt) - 1) // block * block


def check_found(outputs, prompts, block):
    """Every block that a prompt can have from a cache was had from one."""
    assert [output.cached for output in outputs] == [restorable(p, block) for p in prompts]


@every_model
def test_outputs_are_equal_on_every_warm_place(model, engine, start_daemon, reference, settle):
    flags, block = MODELS[model], BLOCK.get(model, 32)
    prompts = workload.shared_prefixes(200 if model == "llama" else 30)
    expected = reference(model, prompts, max_num_seqs=16, **flags)
    daemon = start_daemon()
    begin = dict(model=model, transfer=connector(daemon.socket), max_num_seqs=16, **flags)

    engine.start(**begin)
    check_same(engine.generate(prompts), expected)
    assert settle(daemon, engine)["pages_put_stored"] > 0

    engine.start(**begin)  # a fresh engine on a warm daemon
    outputs = engine.generate(prompts)
    check_same(outputs, expected)
    check_found(outputs, prompts, block)
    first_of_each = sum(restorable(p, block) for p in prompts[:10])
    assert external_hits(engine.metrics()) >= first_of_each
    settle(daemon, engine)

    restart_on_its_store(daemon)  # a fresh daemon, and what the engine has itself is forgotten
    before = external_hits(engine.metrics())

    def found_again():
        assert engine.call("reset_prefix_cache", connector=False)
        check_same(engine.generate(prompts), expected)
        return external_hits(engine.metrics()) > before

    eventually(found_again, "the engine has attached by itself and hits")
    settle(daemon, engine)

    restart_on_its_store(daemon)  # both
    engine.start(**begin)
    outputs = engine.generate(prompts)
    check_same(outputs, expected)
    check_found(outputs, prompts, block)
    assert settle(daemon, engine)["pages_found_store"] > 0


def restart_on_its_store(daemon):
    assert daemon.terminate() == 0
    daemon.forget_pool()
    daemon.start()
    daemon.log_has(r"\bchunk_ready\b")


@every_model
def test_a_poisoned_store_changes_outputs(model, engine, daemon, reference, settle):
    flags = MODELS[model]
    prompts = workload.chats(8)
    expected = ids(reference(model, prompts, **flags))
    pretend = connector(daemon.socket, model="m", revision="r")
    engine.start(model + "-other", pretend, **flags)
    engine.generate(prompts)
    settle(daemon, engine)
    engine.start(model, pretend, **flags)
    outputs = engine.generate(prompts)
    assert all(output.cached for output in outputs)
    unchanged = [i for i, right in enumerate(expected) if outputs[i].ids == right]
    assert not unchanged, [(i, outputs[i], expected[i]) for i in unchanged]


@pytest.mark.parametrize("flags", [dict(dtype="bfloat16"), dict(block_size=96)],
                         ids=lambda flags: "-".join(map(str, flags.values())))
def test_other_types_and_block_sizes(flags, engine, daemon, reference, settle):
    prompts = workload.shared_prefixes(20)
    expected = reference("llama", prompts, **flags)
    for life in range(2):
        engine.start("llama", connector(daemon.socket), **flags)
        outputs = engine.generate(prompts)
        check_same(outputs, expected)
        settle(daemon, engine)
    check_found(outputs, prompts, flags.get("block_size", 32))
