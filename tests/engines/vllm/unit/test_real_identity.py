# SPDX-License-Identifier: Apache-2.0
"""Goal: the namespaces of a real engine configuration are the same in all its processes and in the
next engine, and another configuration has others.

Method: vLLM's own configuration of the tiny models with vLLM's own cache planning, copied as it
goes to workers and changed as models change it there.
"""
import os
import pickle

import pytest
import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (FullAttentionSpec, MambaSpec, MLAAttentionSpec,
                                        SlidingWindowSpec, UniformTypeKVCacheSpecs)

import kvsidecar
from kvsidecar import Part
from kvsidecar.status import Policy
from kvsidecar.vllm.identity import (coordinates, group_spaces, is_replicated, key_scheme, release,
                                     sharing_hints)
from kvsidecar.vllm.settings import Settings

TRANSFER = dict(kv_connector="Connector", kv_connector_module_path="kvsidecar.vllm",
                kv_role="kv_both", kv_load_failure_policy="recompute")
MODEL = os.path.join(os.environ.get("KVSIDECAR_MODELS", ""), "llama")


@pytest.fixture(autouse=True)
def seed(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")


def configured(model=MODEL, **flags):
    return EngineArgs(**{**dict(
        model=model, skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
        max_model_len=512, block_size=32, prefix_caching_hash_algo="sha256_cbor",
        kv_transfer_config=dict(TRANSFER)), **flags}).create_engine_config()


def full(**values):
    return FullAttentionSpec(**{**dict(block_size=32, num_kv_heads=1, head_size=64,
                                       dtype=torch.float32), **values})


def window(**values):
    return SlidingWindowSpec(**{**dict(block_size=32, num_kv_heads=1, head_size=64,
                                       dtype=torch.float32, sliding_window=64), **values})


def mla(**values):
    return MLAAttentionSpec(**{**dict(block_size=32, num_kv_heads=1, head_size=64,
                                      dtype=torch.float32), **values})


def planned(vllm_config, specs):
    """(a worker's KVCacheConfig, the scheduler's) as vLLM plans them."""
    if hasattr(vllm_config.cache_config, "kv_cache_layout"):  # resolved by the engine core
        vllm_config.cache_config.kv_cache_layout = "LBHNC"
    worker, = kv_cache_utils.get_kv_cache_configs(vllm_config, [dict(specs)], [64 << 20])
    return worker, kv_cache_utils.generate_scheduler_kv_cache_config([worker])


LLAMA = {f"model.layers.{i}.self_attn.attn": full() for i in range(4)}


def identities(vllm_config, kv_config):
    parts = [[Part(at, 4096) for at in coordinates(vllm_config, is_replicated(found, vllm_config))]
             for found in kv_config.kv_cache_groups]
    return [kvsidecar.encode_identity(space.fields) for space in group_spaces(
        vllm_config, kv_config, Settings.read(vllm_config), parts)]


def test_every_process_of_an_engine_finds_the_same_names():
    vllm_config = configured()
    worker, scheduler = planned(vllm_config, LLAMA)
    expected = identities(vllm_config, scheduler)
    copied = pickle.loads(pickle.dumps(vllm_config))
    assert identities(copied, pickle.loads(pickle.dumps(worker))) == expected
    # What models do to their worker's copy.
    copied.model_config.hf_config.rope_parameters = {"rope_type": "default", "rope_theta": 1e6}
    copied.model_config.hf_text_config.head_dim = 64
    copied.cache_config.cache_dtype = "fp8"
    assert identities(copied, worker) == expected


def test_the_next_engine_finds_the_same_names():
    one, two = configured(), configured(max_num_seqs=4, max_model_len=256, seed=3)
    assert one.kv_transfer_config.engine_id != two.kv_transfer_config.engine_id
    assert identities(one, planned(one, LLAMA)[1]) == identities(two, planned(two, LLAMA)[1])
    assert sharing_hints(one, Settings.read(one)) == []


@pytest.mark.parametrize("flags", [
    dict(dtype="bfloat16"), dict(prefix_caching_hash_algo="sha256"), dict(block_size=64),
    dict(hf_overrides={"rope_theta": 5.0}), dict(hf_overrides={"num_hidden_layers": 2}),
    dict(kv_transfer_config=dict(TRANSFER, kv_connector_extra_config={"tenant_salt": "s"})),
    dict(speculative_config=dict(method="ngram", num_speculative_tokens=2,
                                 prompt_lookup_max=3)),
])
def test_another_configuration_has_other_names(flags):
    size = flags.get("block_size", 32)
    specs = {name: full(block_size=size) for name in LLAMA}
    one, two = configured(), configured(**flags)
    assert identities(one, planned(one, LLAMA)[1]) != identities(two, planned(two, specs)[1])


def test_a_random_seed_is_noticed_as_the_release_has_it(monkeypatch):
    vllm_config = configured()
    monkeypatch.delenv("PYTHONHASHSEED")
    seeds = []
    for _ in range(2):
        kv_cache_utils.init_none_hash(get_hash_fn_by_name("sha256_cbor"))
        seeds.append(kv_cache_utils.NONE_HASH)
    random = seeds[0] != seeds[1]
    assert bool(sharing_hints(vllm_config, Settings.read(vllm_config))) is random
    engine_id = vllm_config.kv_transfer_config.engine_id
    assert (engine_id in key_scheme(vllm_config, Settings.read(vllm_config))) is random


def test_groups_of_a_hybrid_model_have_their_rules():
    vllm_config = configured()
    state = MambaSpec(block_size=32, shapes=((2, 32),), dtypes=(torch.float32,),
                      mamba_cache_mode="align", page_size_padded=full().page_size_bytes)
    specs = {"a": full(), "b": window(), "c": state}
    worker, scheduler = planned(vllm_config, specs)
    parts = [[Part(kvsidecar.Coordinate(), 4096)] for _ in scheduler.kv_cache_groups]
    spaces = group_spaces(vllm_config, scheduler, Settings.read(vllm_config), parts)
    assert {space.kind: (space.fields.pool, space.policy, space.trailing) for space in spaces} == {
        "full": ("kv", Policy.ALL_PAGES, 0), "window": ("swa", Policy.TRAILING_PAGES, 2),
        "state": ("mamba", Policy.TRAILING_PAGES, 1)}
    assert identities(vllm_config, worker) == identities(vllm_config, scheduler)
    assert len(set(identities(vllm_config, worker))) == 3


def test_a_group_of_differing_layers_has_the_name_that_the_scheduler_can_find():
    vllm_config = configured()
    specs = {"a": mla(), "b": mla(head_size=32)}
    assert UniformTypeKVCacheSpecs.is_uniform_type(specs)
    worker, scheduler = planned(vllm_config, specs)
    assert identities(vllm_config, worker) == identities(vllm_config, scheduler)
    assert is_replicated(worker.kv_cache_groups[0], vllm_config)


def test_the_release_is_part_of_the_name():
    vllm_config = configured()
    assert release().count(".") == 1
    found, = identities(vllm_config, planned(vllm_config, LLAMA)[1])
    assert f"vllm {release()}".encode() in found
