# SPDX-License-Identifier: Apache-2.0
"""Goal: two engines share pages exactly when the bytes would be the same.

Method: an engine fills a daemon, another one that differs in one thing asks for the same prompts:
it must find nothing, and answer right; one that differs in nothing that matters finds everything.
(Bug reports O1-02, O1-03, O1-08.)
"""
import os
import shutil

import pytest

import workload
from engine import connector, external_hits, ids, model_path
from test_outputs import restorable
from waiting import eventually


def hits(engine, daemon, settle, expected, prompts, model="llama", extra=None, **flags):
    engine.start(model, connector(daemon.socket, **(extra or {})), **flags)
    outputs = engine.generate(prompts)
    if expected is not None:
        assert ids(outputs) == expected
    settle(daemon, engine)
    return external_hits(engine.metrics())


def test_what_differs_is_not_shared(engine, daemon, reference, settle):
    prompts = workload.chats(3)
    expected = ids(reference("llama", prompts))
    whole = sum(restorable(p, 32) for p in prompts)

    def found(right=expected, **differs):
        return hits(engine, daemon, settle, right, prompts, **differs)

    assert found() == 0
    assert found(max_num_seqs=2, max_model_len=512, seed=5) == whole  # nothing that matters
    assert found(right=None, dtype="bfloat16") == 0
    assert found(block_size=64) == 0
    assert found(prefix_caching_hash_algo="sha256") == 0
    assert found(extra={"tenant_salt": "other"}) == 0
    assert found(extra={"revision": "2"}) == 0
    assert found(right=None, hf_overrides={"rope_theta": 500.0}) == 0
    assert found() == whole


def test_engines_of_another_hash_seed_share_nothing(make_engine, daemon, reference, settle):
    prompts = workload.chats(3)
    expected = ids(reference("llama", prompts))
    for seed, whole in (("0", 0), ("1", 0), ("0", sum(restorable(p, 32) for p in prompts))):
        engine = make_engine(PYTHONHASHSEED=seed)
        assert hits(engine, daemon, settle, expected, prompts) == whole
        engine.close()


@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_new_weights_under_the_same_name_are_another_model(model, engine, daemon, reference,
                                                           settle, tmp_path):
    prompts = workload.chats(4)
    path = str(tmp_path / "served")
    for weights in (model, model + "-other", model):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(model_path(weights), path)
        for name in os.listdir(path):  # as an installer would leave it
            os.utime(os.path.join(path, name), (0, 0) if name == "config.json" else None)
        assert hits(engine, daemon, settle, ids(reference(weights, prompts)), prompts,
                    model=path) == 0
    assert hits(engine, daemon, settle, ids(reference(model, prompts)), prompts, model=path) > 0


def found_after_reset(engine, prompts, expected):
    before = external_hits(engine.metrics())
    assert ids(engine.generate(prompts)) == expected
    return external_hits(engine.metrics()) - before


@pytest.mark.parametrize("on_reset", ["detach", "clear", "keep"])
def test_a_reset_of_the_cache(on_reset, engine, daemon, reference, settle):
    prompts = workload.chats(3)
    whole = sum(restorable(p, 32) for p in prompts)
    expected = ids(reference("llama", prompts))
    engine.start("llama", connector(daemon.socket, on_reset=on_reset))
    assert ids(engine.generate(prompts)) == expected
    settle(daemon, engine)
    assert engine.call("reset_prefix_cache", connector=True)
    assert found_after_reset(engine, prompts, expected) == (whole if on_reset == "keep" else 0)

    def found_again():  # what came after the reset, once the daemon has done its part of it
        settle(daemon, engine)
        assert engine.call("reset_prefix_cache", connector=False)
        return found_after_reset(engine, prompts, expected) == whole

    eventually(found_again, "what is stored after a reset is found")
    settle(daemon, engine)
    # Another engine: detached pages are this one's own, cleared ones are gone for all.
    assert hits(engine, daemon, settle, expected, prompts) == whole
