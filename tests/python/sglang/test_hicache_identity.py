# SPDX-License-Identifier: Apache-2.0
"""Goal: engines that differ in anything that decides the bytes of a page never see each other's,
and those that differ in nothing else do (O1-02, O1-03, O1-05).

Method: what SGLang would tell of two engines differs in one thing; the namespaces of their pools
are compared as the daemon would hash them, and one pair is driven through the daemon.
"""
import os
import struct
from types import SimpleNamespace

import pytest

import sglang.srt.runtime_context as runtime
from hicache_scene import config, hashes
from host_pools import Mha, Mla
from kvsidecar import namespace_id
from kvsidecar.sglang.facts import Facts, facts_of_process, release
from kvsidecar.sglang.hicache import ranks_of
from kvsidecar.sglang.hicache_settings import HiCacheSettings
from kvsidecar.sglang.host_layout import describe, segments_of
from kvsidecar.sglang.identity import engine_id, engine_of, space_of

pytestmark = pytest.mark.usefixtures("library")


def model(folder, body=b"1" * 4096, configuration='{"layers": 3}'):
    os.makedirs(folder, exist_ok=True)
    header = b'{"a":{"dtype":"F32"}}'
    path = os.path.join(folder, "model.safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)
    os.utime(path, (1, 1))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(configuration)
    return str(folder)


@pytest.fixture
def args(tmp_path):
    """ServerArgs of an engine, as far as they matter."""
    return dict(model_path=model(tmp_path / "model"), load_format="auto", revision=None,
                dtype="auto", kv_cache_dtype="auto", quantization=None, device="cpu",
                json_model_override_args="{}", context_length=None, attention_backend="fa3",
                quantization_param_path=None, speculative_algorithm=None, lora_paths=None, nnodes=1)


def identity(args, pool=None, extra=None, name="kv", **changed):
    """The 16 bytes of one pool's namespace."""
    pool = pool or Mha()
    about = config("/nowhere", extra, revision=False, **changed)
    facts = Facts(SimpleNamespace(**args))
    engine = engine_of(facts, ranks_of(about, facts), HiCacheSettings.read(about.extra_config),
                       "hicache", about.model_name)
    (segments,) = segments_of(pool)
    space = space_of(engine, name, tokens=pool.page_size, page_bytes=pool.page_bytes,
                     layout=describe(pool, segments), dtype=str(pool.dtype),
                     replicated=about.is_mla_model)
    return namespace_id(space.fields)


def with_attributes(pool, **attributes):
    for attribute, value in attributes.items():
        setattr(pool, attribute, value)
    return pool


@pytest.mark.parametrize("change", [
    dict(dtype="float16"), dict(kv_cache_dtype="fp8_e4m3"), dict(quantization="fp8"),
    dict(json_model_override_args='{"rope_theta": 5}'), dict(context_length=4096),
    dict(attention_backend="triton"), dict(linear_attn_backend="triton"),
    dict(revision="0" * 40), dict(model_impl="transformers"),
    dict(speculative_algorithm="EAGLE"), dict(load_format="dummy"), dict(device="cuda"),
    dict(enable_multi_layer_eagle=True, speculative_algorithm="EAGLE")],
    ids=lambda change: "-".join(change))
def test_a_choice_of_the_server_parts_engines(args, change):
    if "revision" in change:
        args["model_path"] = "org/tiny"
    assert identity(args) != identity({**args, **change})


@pytest.mark.parametrize("extra", [
    {"model": "other"}, {"revision": "r2"}, {"tenant_salt": "a"}, {"weights_version": "2"},
    {"identity": "rotated"}], ids=lambda extra: next(iter(extra)))
def test_a_key_of_the_operator_parts_engines(args, extra):
    assert identity(args) != identity(args, extra=extra)


@pytest.mark.parametrize("pool", [
    lambda: Mha(layout="page_first_direct"), lambda: Mha(layout="layer_first"),
    lambda: Mha(head_dim=16), lambda: Mla(),
    lambda: with_attributes(Mha(), dtype="torch.float8_e4m3fn"),
    lambda: with_attributes(Mha(), end_layer=2), lambda: with_attributes(Mha(), layer_num=4),
    lambda: with_attributes(Mha(), storage_format_tag="packed")])
def test_another_arrangement_of_bytes_parts_engines(args, pool):
    assert identity(args) != identity(args, pool())


@pytest.mark.parametrize("change", [
    dict(tp_size=2), dict(tp_size=2, is_mla_model=True), dict(pp_size=2), dict(attn_cp_size=2)])
def test_another_geometry_parts_engines(args, change):
    assert identity(args) != identity(args, **change)
    for rank, size in (("pp_rank", "pp_size"), ("attn_cp_rank", "attn_cp_size")):
        if size in change:
            assert identity(args, **change) != identity(args, **change, **{rank: 1})


def test_pools_have_namespaces_of_their_own(args):
    assert identity(args) != identity(args, name="draft")


def test_the_tp_ranks_of_an_engine_share_one_namespace(args):
    assert identity(args, tp_size=2) == identity(args, tp_size=2, tp_rank=1)


@pytest.mark.parametrize("change", [
    dict(dp_rank=3), dict(model_name="served under another name"),
    dict(enable_storage_metrics=True)])
def test_what_decides_no_bytes_parts_nobody(args, change):
    assert identity(args) == identity(args, **change)


@pytest.mark.parametrize("change", [dict(port=1), dict(host="a"), dict(nccl_port=5),
                                    dict(random_seed=7), dict(max_total_tokens=5)])
def test_where_and_how_an_engine_serves_parts_nobody(args, change):
    assert identity(args) == identity({**args, **change})


def test_the_memory_that_pages_lie_in_parts_nobody(args):
    assert identity(args, Mha("shm")) == identity(args, Mha("default", pages=30))


def test_the_same_weights_under_another_path_are_the_same(args, tmp_path):
    again = model(tmp_path / "elsewhere" / "model")
    assert identity(args) == identity({**args, "model_path": again})


@pytest.mark.parametrize("what", [dict(body=b"2" * 4096), dict(configuration='{"layers": 4}')])
def test_other_content_under_the_same_path_is_another_model(args, what):
    before = identity(args)
    model(args["model_path"], **what)
    assert identity(args) != before


def test_the_content_of_kv_scales_counts(args, tmp_path):
    scales = tmp_path / "scales.json"
    scales.write_text("1")
    with_scales = {**args, "quantization_param_path": str(scales)}
    first = identity(with_scales)
    scales.write_text("2")
    assert len({identity(args), first, identity(with_scales)}) == 3


def test_the_draft_models_weights_count(args, tmp_path):
    draft = model(tmp_path / "draft")
    engine = {**args, "speculative_algorithm": "EAGLE", "speculative_draft_model_path": draft}
    first = identity(engine)
    model(draft, body=b"3" * 4096)
    assert identity(engine) != first


def adapter(folder, body):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(body)
    return str(folder)


@pytest.mark.parametrize("form", [
    lambda path: [f"a={path}"], lambda path: [path], lambda path: {"a": path},
    lambda path: [{"lora_name": "a", "lora_path": path}],
    lambda path: [SimpleNamespace(lora_name="a", lora_path=path)]])
def test_adapters_of_the_start_count_by_their_content(args, tmp_path, form):
    path = adapter(tmp_path / "a", b"1")
    engine = {**args, "lora_paths": form(path)}
    first = identity(engine)
    assert first == identity(engine) != identity(args)
    adapter(tmp_path / "a", b"2")
    assert identity(engine) != first


def test_weights_that_nobody_can_name_are_this_engines_alone(args, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    unknown = Facts(SimpleNamespace(**{**args, "model_path": "org/unknown"}))
    about = config("/nowhere", revision=False)
    found = engine_of(unknown, ranks_of(about, unknown), HiCacheSettings.read(about.extra_config),
                      "hicache")
    assert engine_id(unknown) in found.common["revision"]
    assert any("set revision" in hint for hint in found.hints)


def test_all_ranks_of_one_start_have_one_engine_id_and_other_starts_another(args):
    assert engine_id(Facts(SimpleNamespace(**args))) == engine_id(Facts(SimpleNamespace(**args)))
    other = Facts(SimpleNamespace(**{**args, "random_seed": 5}))
    assert engine_id(Facts(SimpleNamespace(**args))) != engine_id(other)


def test_facts_are_those_after_sglangs_own_overrides(args):
    context = runtime.get_context()
    context.set_server_args(SimpleNamespace(**args))
    context._resolved["kv_cache_dtype"] = "fp8_e5m2"
    facts = facts_of_process()
    assert (facts.get("kv_cache_dtype"), facts.get("device")) == ("fp8_e5m2", "cpu")
    assert facts.get("nothing of that name", 7) == 7 and release() == "0.5.23"


def test_without_server_arguments_it_is_said_what_is_not_known():
    facts = facts_of_process()
    about = config("/nowhere")
    found = engine_of(facts, ranks_of(about, facts), HiCacheSettings.read(about.extra_config),
                      "hicache", about.model_name)
    assert not facts.known and found.common["model"] == "org/tiny"
    assert any("name them in identity" in hint for hint in found.hints)


def test_an_engine_with_another_dtype_finds_nothing(daemon, open_backend):
    keys = hashes("a", 3)
    first = open_backend(daemon, pools={"kv": Mha()})
    pool = first.hosts["kv"]
    assert first.batch_set_v1(keys, pool.slots(1, 2, 3)) == [True] * 3
    for other in (with_attributes(Mha(), dtype="torch.float16"), Mha(layout="layer_first")):
        second = open_backend(daemon, pools={"kv": other})
        assert second.batch_exists(keys) == 0
        assert second.batch_get_v1(keys, other.slots(1, 2, 3)) == [False] * 3
    assert first.batch_exists(keys) == 3
