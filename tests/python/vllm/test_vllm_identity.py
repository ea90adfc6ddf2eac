# SPDX-License-Identifier: Apache-2.0
"""Goal: two engines share a page exactly if it has the same bytes for both.

Method: one configuration changed one thing at a time, down to the canonical form that the daemon
hashes. What must part them, what must not, and what is refused. Covers O1-02, O1-03, O1-04, O1-05,
O4-06, O4-08, O4-10, O4-13, O4-14, O11-04.
"""
from dataclasses import replace

import pytest

import kvsidecar
from kvsidecar import Coordinate, Misuse
from kvsidecar.status import Policy
from kvsidecar.vllm import identity
from kvsidecar.vllm.identity import (adapter_choices, coordinates, cpu_flags, depends_on_length,
                                     own_coordinate, sharing_hints)
from vllm_fakes import (ChunkedLocalAttentionSpec, CircularBufferSpec, CrossAttentionSpec,
                        FullAttentionSpec, MambaSpec, MLAAttentionSpec, SinkFullAttentionSpec,
                        SlidingWindowSpec, UniformTypeKVCacheSpecs, cache, config, encoded, engine,
                        group, settings, spaces, transfer)


@pytest.fixture(autouse=True)
def no_seed(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.delenv("VLLM_KV_CACHE_LAYOUT", raising=False)


class Rope:
    def __init__(self, **values):
        self.values = values

    def to_dict(self):
        return {"layers": [{"rope_parameters": self.values}]}


DRAFT = config(model="org/draft", revision=None, hf_config=None, seed=0, model_weights="")


def speculative(method, draft=DRAFT):
    return config(method=method, draft_model_config=draft, draft_load_config=None)


PARTING = {
    "model": dict(model=dict(model="org/other")),
    "weights": dict(model=dict(revision="f" * 40)),
    "a configuration from elsewhere": dict(model=dict(hf_config_path="org/other")),
    "its format": dict(model=dict(config_format="mistral")),
    "dtype": dict(model=dict(dtype="float16")),
    "quantization": dict(model=dict(quantization="fp8")),
    "quantization options": dict(model=dict(quantization_config={"a": 1})),
    "overrides": dict(model=dict(hf_overrides={"rope_theta": 5})),
    "code": dict(model=dict(code_revision="abc")),
    "sliding window off": dict(model=dict(disable_sliding_window=True)),
    "media": dict(model=dict(multimodal_config=config(video_pruning_rate=0.5))),
    "tensor parallel": dict(parallel=dict(tensor_parallel_size=2)),
    "pipeline parallel": dict(parallel=dict(pipeline_parallel_size=2)),
    "prefill context parallel": dict(parallel=dict(prefill_context_parallel_size=2)),
    "decode context parallel": dict(parallel=dict(
        tensor_parallel_size=2, decode_context_parallel_size=2)),
    "hash algorithm": dict(cache_config=dict(prefix_caching_hash_algo="sha256")),
    "fp8 e5m2": dict(cache_config=dict(cache_dtype="fp8_e5m2")),
    "attention backend": dict(attention_config=config(backend="FLASHINFER")),
    "speculation": dict(speculative_config=speculative("eagle3")),
    "speculation without a model": dict(speculative_config=speculative("ngram", None)),
    "another draft model": dict(speculative_config=speculative(
        "eagle3", config(**{**vars(DRAFT), "model": "org/draft2"}))),
    "mtp": dict(speculative_config=speculative("mtp", config(**{
        **vars(DRAFT), "model": "org/llama"}))),
    "another device": dict(device_config=config(device_type="xpu")),
}


def test_every_difference_that_decides_bytes_parts_engines():
    """All pairs of them."""
    found = {name: encoded(engine(**how))[0] for name, how in PARTING.items()}
    found["as it was"] = encoded(engine())[0]
    assert len(set(found.values())) == len(found)


SHARED = {
    "engine id": dict(kv_transfer=transfer(engine_id="other")),
    "data parallel rank": dict(parallel=dict(data_parallel_rank=3, data_parallel_size=4)),
    "role": dict(kv_transfer=transfer(role="kv_consumer")),
    "length": dict(model=dict(max_model_len=4096)),
    "what a model does to its worker's copy": dict(
        model=dict(hf_config=Rope(rope_type="default", rope_theta=7)),
        cache_config=dict(cache_dtype="fp8_ds_mla")),
    "names of nodes": dict(parallel=dict(nnodes=4, nnodes_within_dp=1)),
    "an empty extension": dict(additional_config={}),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_decides_no_bytes_parts_nobody(name):
    assert encoded(engine(**SHARED[name])) == encoded(engine())


@pytest.mark.parametrize("change", [
    dict(block_size=64), dict(num_kv_heads=2), dict(head_size=128), dict(dtype="float16"),
    dict(kv_quant_mode=1), dict(page_size_padded=1 << 16)])
def test_every_field_of_a_cache_spec_parts_engines(change):
    spec = FullAttentionSpec()
    assert encoded(None, cache(group(replace(spec, **change)))) != encoded(None, cache(group(spec)))


def test_a_field_of_a_spec_that_is_unknown_here_parts_engines_too():
    assert encoded(None, cache(group(SinkFullAttentionSpec(sink_len=4)))) != encoded(
        None, cache(group(SinkFullAttentionSpec(sink_len=8))))
    assert encoded(None, cache(group(SinkFullAttentionSpec()))) != encoded(
        None, cache(group(FullAttentionSpec())))


def test_layout_and_layers_part_engines(monkeypatch):
    before = encoded()
    other = cache()
    other.kv_cache_layout = "BLHNC"
    assert encoded(None, other) != before
    assert encoded(None, cache(group(FullAttentionSpec(), ["layer.1"]))) != before
    old = cache()
    del old.kv_cache_layout, old.hash_block_size  # as in 0.28
    unset = encoded(None, old)
    monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", "HND")
    assert encoded(None, old) != unset


def test_groups_of_one_engine_are_apart_even_with_equal_specs():
    spec = SlidingWindowSpec()
    two = cache(group(FullAttentionSpec()), group(spec, ["a"]), group(spec, ["b"]))
    found = encoded(None, two)
    assert len(set(found)) == 3


def test_what_the_operator_sets_replaces_what_was_found_out():
    given = spaces(model="name", revision="r7", tenant_salt="s")[0].fields
    assert (given.model, given.revision, given.tenant_salt) == ("name", "r7", "s")
    assert spaces()[0].fields.tenant_salt is None


def test_a_tenant_is_not_an_adapter_is_not_a_model():
    forms = [encoded(tenant_salt="a")[0], encoded(model="a")[0], encoded(revision="a")[0],
             encoded()[0]]
    assert len(set(forms)) == 4


def test_a_long_path_and_a_long_salt_fit():
    long = spaces(engine(model=dict(model="/".join(["folder"] * 200))), tenant_salt="s" * 4000)
    assert len(kvsidecar.encode_identity(long[0].fields)) < 16 * 1024


# Keys and their seed.

def test_engines_with_other_seeds_share_nothing(monkeypatch):
    found = [encoded()[0]]
    for seed in ("0", "1"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(encoded()[0])
        assert f"sha256_cbor seed {seed}".encode() not in found[-1]  # it may be a secret
    assert len(set(found)) == 3


def test_a_random_seed_is_said_with_its_remedy_and_shared_with_nobody(monkeypatch):
    one = engine(cache_config=dict(prefix_caching_hash_algo="xxhash"))
    other = engine(cache_config=dict(prefix_caching_hash_algo="xxhash"),
                   kv_transfer=transfer(engine_id="other"))
    assert encoded(one) != encoded(other)
    assert any("PYTHONHASHSEED" in hint for hint in sharing_hints(one, settings(one)))
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    assert encoded(one) == encoded(other)
    assert sharing_hints(one, settings(one)) == []


def test_the_default_seed_of_a_release_may_be_random(monkeypatch):
    monkeypatch.setattr(identity, "_default_seed_is_fixed", lambda: False)
    assert encoded() != encoded(engine(kv_transfer=transfer(engine_id="other")))
    assert "seeded at random" in sharing_hints(engine(), settings())[0]


def test_a_revision_that_nobody_can_find_out_is_said_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    unknown = engine(model=dict(revision=None))
    assert any("set revision" in hint for hint in sharing_hints(unknown, settings(unknown)))
    assert sharing_hints(unknown, settings(unknown, revision="r1")) == []
    assert encoded(unknown) != encoded(engine(
        model=dict(revision=None), kv_transfer=transfer(engine_id="other")))


def test_adapters_that_are_applied_otherwise_part_their_requests_alone():
    def applied(**values):
        return engine(lora_config=config(**{**dict(
            lora_dtype="bfloat16", target_modules=None, enable_tower_connector_lora=False),
            **values}))

    assert adapter_choices(engine()) == adapter_choices(applied()) == b""
    others = [applied(lora_dtype="float32"), applied(target_modules=["qkv_proj"]),
              applied(target_modules=["o_proj"]), applied(enable_tower_connector_lora=True)]
    assert len({adapter_choices(other) for other in others} | {b""}) == 5
    assert {str(encoded(other)) for other in others} == {str(encoded())}


@pytest.mark.parametrize("what", [dict(model=dict(revision=None)),
                                  dict(load=config(load_format="dummy")),
                                  dict(cache_config=dict(calculate_kv_scales=True))])
def test_what_is_one_starts_alone_is_not_the_next_ones_of_the_same_engine_id(
        what, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    one, next_one = (engine(**what, instance_id=instance) for instance in ("1", "2"))
    assert encoded(one) == encoded(engine(**what, instance_id="1")) != encoded(next_one)
    assert encoded(engine(instance_id="1")) == encoded(engine(instance_id="2"))


def test_scales_made_from_the_first_prompts_are_shared_with_nobody():
    scaled = dict(calculate_kv_scales=True)
    assert encoded(engine(cache_config=scaled)) != encoded(engine(
        cache_config=scaled, kv_transfer=transfer(engine_id="other")))


@pytest.mark.parametrize("rope, depends", [
    (dict(rope_type="longrope", factor=2), True), (dict(type="su", factor=2), True),
    (dict(rope_type="of the future"), True), (dict(rope_type="yarn"), False),
    (dict(rope_type="default"), False), (dict(type="word"), False),
    (dict(dual_chunk_attention_config={"chunk_size": 8}), True)])
def test_the_longest_sequence_counts_where_it_changes_short_ones(rope, depends):
    assert depends_on_length(Rope(**rope)) is depends
    short, long = [engine(model=dict(max_model_len=length, hf_config=Rope(**rope)))
                   for length in (1024, 4096)]
    assert (encoded(short) != encoded(long)) is depends


def test_the_instruction_set_is_told_from_its_flags(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512f amx_tile sse\nflags\t: none\n")
    assert cpu_flags(str(info)) == ["avx2", "avx512f", "amx_tile"]
    info.write_text("Features : asimd bf16\n")
    assert cpu_flags(str(info)) == ["asimd", "bf16"]
    assert cpu_flags(str(tmp_path / "none")) == []


# Groups: which pages a prefix needs.

@pytest.mark.parametrize("spec, kind, pool, policy, trailing", [
    (FullAttentionSpec(), "full", "kv", Policy.ALL_PAGES, 0),
    (SinkFullAttentionSpec(), "full", "kv", Policy.ALL_PAGES, 0),
    (MLAAttentionSpec(), "full", "kv", Policy.ALL_PAGES, 0),
    (MLAAttentionSpec(cache_role=config(value="indexer")), "full", "indexer",
     Policy.ALL_PAGES, 0),
    (SlidingWindowSpec(sliding_window=1), "window", "swa", Policy.TRAILING_PAGES, 1),
    (SlidingWindowSpec(sliding_window=64), "window", "swa", Policy.TRAILING_PAGES, 2),
    (SlidingWindowSpec(sliding_window=65), "window", "swa", Policy.TRAILING_PAGES, 2),
    (SlidingWindowSpec(sliding_window=66), "window", "swa", Policy.TRAILING_PAGES, 3),
    (ChunkedLocalAttentionSpec(), "chunk", "chunk", Policy.TRAILING_PAGES, 7),
    (ChunkedLocalAttentionSpec(attention_chunk_size=63), "chunk", "chunk",
     Policy.TRAILING_PAGES, 2),
    (MambaSpec(), "state", "mamba", Policy.TRAILING_PAGES, 1),
    (CircularBufferSpec(), "none", "kv", Policy.ALL_PAGES, 0),
])
def test_each_kind_of_group_has_its_rule(spec, kind, pool, policy, trailing):
    found = spaces(None, cache(group(spec)))[0]
    assert (found.kind, found.fields.pool) == (kind, pool)
    assert (found.policy, found.trailing) == (policy, trailing)


def test_a_chunk_never_begins_before_the_pages_that_are_asked_for():
    for chunk in range(1, 200):
        space = spaces(None, cache(group(ChunkedLocalAttentionSpec(attention_chunk_size=chunk))))[0]
        for end in range(32, 32 * 200, 32):
            needed = -(-(end % chunk) // 32)
            assert needed <= space.trailing, (chunk, end)


def test_a_group_that_vllm_does_not_transfer_is_not_stored():
    found = spaces(None, cache(group(FullAttentionSpec()),
                               group(FullAttentionSpec(), enable_kv_transfer=False)))
    assert [space.kind for space in found] == ["full", "none"]


def test_layers_of_several_specs_in_one_group_count_by_the_first():
    """The scheduler is told only the first, workers all: both must find the same name."""
    first, other = MLAAttentionSpec(), MLAAttentionSpec(head_size=32)
    worker = cache(group(UniformTypeKVCacheSpecs(kv_cache_specs={"a": first, "b": other}), "ab"))
    scheduler = cache(group(first, "ab"))
    assert encoded(None, worker) == encoded(None, scheduler)


def test_a_drafters_layers_are_marked():
    found = spaces(None, cache(group(FullAttentionSpec(), is_eagle_group=True),
                               group(FullAttentionSpec())))
    assert [space.draft for space in found] == [True, False]


def test_context_parallel_ranks_share_the_tokens_of_a_page():
    dealt = engine(parallel=dict(tensor_parallel_size=4, decode_context_parallel_size=2))
    found = spaces(dealt, cache(group(FullAttentionSpec()), group(MambaSpec())))
    assert [space.tokens_per_page for space in found] == [64, 32]


@pytest.mark.parametrize("groups, words", [
    ([group(CrossAttentionSpec())], ("group 0", "CrossAttentionSpec", "known are")),
    ([group(FullAttentionSpec()), group(MambaSpec(mamba_cache_mode="none"))],
     ("group 1", "mode none", "--mamba-cache-mode align")),
    ([group(FullAttentionSpec(), host_resident=True)], ("group 0", "HiSparse")),
    ([group(UniformTypeKVCacheSpecs(kv_cache_specs={
        "a": FullAttentionSpec(), "b": MambaSpec()}))], ("group 0", "full and state")),
    ([group(FullAttentionSpec(block_size=48))], ("blocks of 48", "hashes of 32", "--block-size")),
])
def test_a_group_that_cannot_be_served_is_refused_in_words(groups, words):
    with pytest.raises(Misuse) as caught:
        spaces(None, cache(*groups))
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("parallel", [dict(nnodes=2), dict(nnodes=4, nnodes_within_dp=2)])
def test_an_engine_over_several_nodes_is_refused_in_words(parallel):
    with pytest.raises(Misuse, match="nnodes is 2: .*keep each engine on one node"):
        spaces(engine(parallel=parallel))


# Ranks.

def test_ranks_and_parts_are_the_same_set():
    many = engine(parallel=dict(tensor_parallel_size=3, pipeline_parallel_size=2,
                                prefill_context_parallel_size=2))
    declared = coordinates(many, False)
    assert [own_coordinate(many, rank, False) for rank in range(12)] == declared
    assert len(set(declared)) == 12
    assert [part.coordinate for part in spaces(many)[0].fields.parts] == declared


def test_replicated_bytes_are_one_part_that_every_rank_finds():
    many = engine(parallel=dict(tensor_parallel_size=4, pipeline_parallel_size=2))
    found = spaces(many, cache(group(MLAAttentionSpec())))[0]
    assert found.replicated
    assert [part.coordinate for part in found.fields.parts] == [Coordinate(0, 0, 0),
                                                                Coordinate(0, 1, 0)]
    assert {own_coordinate(many, rank, True) for rank in range(4)} == {Coordinate(0, 0, 0)}


def test_context_parallelism_makes_replicated_bytes_different_again():
    dealt = engine(parallel=dict(tensor_parallel_size=2, decode_context_parallel_size=2))
    found = spaces(dealt, cache(group(MLAAttentionSpec())))[0]
    assert not found.replicated and len(found.fields.parts) == 2


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_that_is_not_of_the_engine_is_refused(rank):
    with pytest.raises(Misuse, match=f"rank is {rank}; this engine has 4 ranks"):
        own_coordinate(engine(parallel=dict(tensor_parallel_size=4)), rank, False)
