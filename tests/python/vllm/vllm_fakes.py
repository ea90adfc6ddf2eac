# SPDX-License-Identifier: Apache-2.0
"""The parts of vLLM's configuration that the connector reads, as plain objects with vLLM's names.

The spec classes have the names and the fields of vLLM's own; tests/engines runs the same functions
on the real ones.
"""
import types
from dataclasses import dataclass, replace
from typing import Any, Optional

import kvsidecar
from kvsidecar.vllm.settings import Settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def config(**values):
    return types.SimpleNamespace(**values)


@dataclass(frozen=True)
class KVCacheSpec:
    block_size: int = 32


@dataclass(frozen=True)
class AttentionSpec(KVCacheSpec):
    num_kv_heads: int = 1
    head_size: int = 64
    dtype: str = "float32"
    kv_quant_mode: int = 0
    page_size_padded: Optional[int] = None
    dcp_sharded: bool = True


@dataclass(frozen=True)
class FullAttentionSpec(AttentionSpec):
    sliding_window: Optional[int] = None


@dataclass(frozen=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    sink_len: int = 4


@dataclass(frozen=True)
class MLAAttentionSpec(FullAttentionSpec):
    cache_dtype_str: Optional[str] = None
    cache_role: Any = None


@dataclass(frozen=True)
class SlidingWindowSpec(AttentionSpec):
    sliding_window: int = 64


@dataclass(frozen=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    attention_chunk_size: int = 256


@dataclass(frozen=True)
class MambaSpec(KVCacheSpec):
    shapes: tuple = ((2, 3),)
    dtypes: tuple = ("float32",)
    mamba_cache_mode: str = "align"


@dataclass(frozen=True)
class CircularBufferSpec(AttentionSpec):
    prefix_cacheable: bool = False


@dataclass(frozen=True)
class CrossAttentionSpec(AttentionSpec):
    pass


@dataclass(frozen=True)
class UniformTypeKVCacheSpecs(KVCacheSpec):
    kv_cache_specs: Any = None


def group(spec, layers=("layer.0",), **flags):
    return config(kv_cache_spec=spec, layer_names=list(layers), **flags)


def cache(*groups, **values):
    """A KVCacheConfig."""
    values.setdefault("hash_block_size", 32)
    return config(kv_cache_groups=list(groups) or [group(FullAttentionSpec())],
                  kv_cache_layout="LBHNC", **values)


def transfer(role="kv_both", policy="recompute", extra=None, engine_id="engine"):
    return config(kv_role=role, kv_load_failure_policy=policy, engine_id=engine_id,
                  kv_connector_extra_config={} if extra is None else extra)


def engine(model=None, parallel=None, kv_transfer=None, cache_config=None, **parts):
    """A VllmConfig of a Llama of a known commit, changed where asked for."""
    return config(
        model_config=config(**{**dict(
            model="org/llama", revision=COMMIT, dtype="bfloat16", quantization=None, seed=0,
            hf_overrides={}, hf_config=None, max_model_len=1024, multimodal_config=None),
            **(model or {})}),
        parallel_config=config(**{**dict(
            tensor_parallel_size=1, pipeline_parallel_size=1, prefill_context_parallel_size=1,
            decode_context_parallel_size=1, nnodes=1), **(parallel or {})}),
        cache_config=config(**{**dict(
            block_size=32, prefix_caching_hash_algo="sha256_cbor", cache_dtype="auto"),
            **(cache_config or {})}),
        device_config=parts.pop("device_config", config(device_type="cpu")),
        load_config=parts.pop("load", config(load_format="auto")),
        kv_transfer_config=kv_transfer or transfer(), **parts)


def settings(vllm_config=None, **changes):
    return replace(Settings.read(vllm_config or engine()), **changes)


def parts_of(vllm_config, kv_cache_config, size=4096):
    """The parts of every group, all of one size."""
    from kvsidecar.vllm.identity import coordinates, is_replicated
    return [[kvsidecar.Part(at, size)
             for at in coordinates(vllm_config, is_replicated(found, vllm_config))]
            for found in kv_cache_config.kv_cache_groups]


def spaces(vllm_config=None, kv_cache_config=None, **changes):
    """What group_spaces says."""
    from kvsidecar.vllm.identity import group_spaces
    vllm_config = vllm_config or engine()
    kv_cache_config = kv_cache_config or cache()
    return group_spaces(vllm_config, kv_cache_config, settings(vllm_config, **changes),
                        parts_of(vllm_config, kv_cache_config))


def encoded(*arguments, **changes):
    """The canonical forms of all groups' namespaces."""
    return [kvsidecar.encode_identity(space.fields) for space in spaces(*arguments, **changes)]


def lora(number=1, name="adapter", path="/none", load_inplace=False):
    return config(lora_int_id=number, lora_name=name, lora_path=path, load_inplace=load_inplace)
