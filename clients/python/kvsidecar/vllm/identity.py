# SPDX-License-Identifier: Apache-2.0
"""What decides the bytes of a page, per KV cache group of an engine.

All processes of an engine come to the same answer from vllm_config and kv_cache_config alone; what
models change in their worker's copy (hf_config, cache_config.cache_dtype) is therefore not looked
at, its sources are: the model's files, the overrides, the KV cache specs. Data parallel rank and
engine id stay out: replicas share. vLLM is asked only for its release and its platform.
"""
from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..errors import Misuse
from ..identity import Coordinate, NamespaceFields, Part
from ..plugin.fingerprint import digest_of, folder_fingerprint, weights_of
from ..status import Policy
from .groups import Group, group_of, is_same_on_all_ranks
from .settings import Settings, own_id

# Rotary embeddings whose values don't depend on the longest sequence that the engine allows.
ROPE_WITHOUT_LENGTH = {"default", "linear", "llama3", "yarn", "mrope", "bailing_mrope", "dynamic",
                       "ntk", "proportional", "mllama4", "deepseek_yarn", "deepseek_llama_scaling"}
# Of ModelConfig, beside the files: what changes the values that go into the cache.
MODEL_CHOICES = ("dtype", "quantization", "quantization_config", "hf_overrides",
                 "model_class_overrides", "model_impl", "disable_sliding_window", "code_revision",
                 "convert", "override_attention_dtype", "config_format")
MEDIA_CHOICES = ("video_pruning_rate", "video_pruning_method", "mm_encoder_attn_dtype",
                 "mm_device_do_normalize", "mm_processor_kwargs")
ATTENTION_CHOICES = ("backend", "backend_per_kind", "indexer_kv_dtype", "use_non_causal")
CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "sve", "bf16")


@dataclass(frozen=True)
class GroupSpace:
    """One KV cache group as the daemon knows it."""

    group: int  # index in kv_cache_config.kv_cache_groups
    fields: NamespaceFields
    kind: str  # "full", "window", "chunk", "state" or "none" (never stored: no key names its bytes)
    policy: Policy  # which pages of a prefix must be there
    trailing: int  # pages, for Policy.TRAILING_PAGES
    tokens_per_page: int  # of one block of this group, times the context-parallel ranks
    replicated: bool  # all tp ranks hold the same bytes (MLA): one part, stored by tp rank 0
    draft: bool  # a drafter's layers are among it: the last page of a prefix is of less use to them
    spec_kind: str = "unknown"  # as KV events call it
    window: Optional[int] = None  # tokens, of "window"


def _sizes(vllm_config: Any) -> Tuple[int, int, int]:
    """(tp, pp, cp). Decode context parallelism splits the tp ranks and adds none."""
    parallel = vllm_config.parallel_config
    return (parallel.tensor_parallel_size, parallel.pipeline_parallel_size,
            getattr(parallel, "prefill_context_parallel_size", 1))


def coordinates(vllm_config: Any, replicated: bool) -> List[Coordinate]:
    """The parts of a page of this engine, in declared order: tp fastest, then cp, then pp."""
    tp, pp, cp = _sizes(vllm_config)
    return [Coordinate(t, p, c) for p in range(pp) for c in range(cp)
            for t in range(1 if replicated else tp)]


def own_coordinate(vllm_config: Any, rank: int, replicated: bool) -> Coordinate:
    """Which part the worker of this global rank (without data parallelism) holds."""
    tp, pp, cp = _sizes(vllm_config)
    if not 0 <= rank < tp * pp * cp:
        raise Misuse(f"rank is {rank}; this engine has {tp * pp * cp} ranks (tensor parallel {tp}, "
                     f"pipeline parallel {pp}, context parallel {cp})")
    return Coordinate(0 if replicated else rank % tp, rank // (tp * cp), rank // tp % cp)


def is_replicated(kv_cache_group: Any, vllm_config: Any) -> bool:
    """Whether all tp ranks hold the same bytes of this group. Decode context parallelism deals
    tokens to them, so that they don't."""
    return is_same_on_all_ranks(kv_cache_group.kv_cache_spec) and _dcp(vllm_config) == 1


def _dcp(vllm_config: Any) -> int:
    return int(getattr(vllm_config.parallel_config, "decode_context_parallel_size", 1))


def group_spaces(vllm_config: Any, kv_cache_config: Any, settings: Settings,
                 parts: Sequence[Sequence[Part]]) -> List[GroupSpace]:
    """One per KV cache group. parts: per group, the parts of a page with their bytes, in the order
    of coordinates(). Raises Misuse for an engine over several nodes and for block sizes that don't
    divide, with both numbers."""
    check_one_node(vllm_config)
    groups = [group_of(i, group) for i, group in enumerate(kv_cache_config.kv_cache_groups)]
    dcp = _dcp(vllm_config)
    hash_tokens = getattr(kv_cache_config, "hash_block_size", None) or 1  # 0.28 checks by itself
    common = _common(vllm_config, kv_cache_config, settings)
    spaces = []
    for group in groups:
        tokens = group.tokens_per_page(dcp)
        if group.kind != "none" and tokens % hash_tokens:
            raise Misuse(f"KV cache group {group.index} ({group.pool}) has blocks of {tokens} "
                         f"tokens, which hashes of {hash_tokens} tokens don't divide; choose a "
                         "--block-size that is a multiple of the hash block size")
        policy, trailing = group.policy(dcp)
        spaces.append(GroupSpace(
            group.index, _fields(common, group, parts[group.index], tokens), group.kind, policy,
            trailing, tokens, group.replicated and dcp == 1, group.draft, group.spec_kind,
            group.window))
    return spaces


def check_one_node(vllm_config: Any) -> None:
    """Raises Misuse for an engine whose ranks lie on several nodes."""
    parallel = vllm_config.parallel_config
    nodes = getattr(parallel, "nnodes_within_dp", None) or getattr(parallel, "nnodes", 1)
    if nodes > 1:
        raise Misuse(f"nnodes is {nodes}: the engine spans that many nodes, but a daemon serves "
                     "the ranks of one; keep each engine on one node (data parallel replicas may "
                     "be on several)")


def _common(vllm_config: Any, kv_cache_config: Any, settings: Settings) -> Dict[str, Any]:
    """What is the same in all groups, as arguments of NamespaceFields."""
    model = vllm_config.model_config
    weights = weights_of(model, vllm_config.load_config, settings.own_id)
    tp, pp, cp = _sizes(vllm_config)
    layout = getattr(kv_cache_config, "kv_cache_layout", None) or os.environ.get(
        "VLLM_KV_CACHE_LAYOUT") or "default"
    names = [group.layer_names for group in kv_cache_config.kv_cache_groups]
    parallel = vllm_config.parallel_config
    extra = [
        ("engine", "vllm " + release()), ("platform", platform_name(vllm_config)),
        ("config", config_digest(vllm_config)),
        # The layers of other stages are known to none, so they can't be in.
        ("layers", digest_of(names) if pp == 1 else "by stage"),
        ("context parallel", f"{_dcp(vllm_config)} x {cp} by " + _interleave(parallel)),
    ]
    return {
        "model": settings.model or weights.model,
        "revision": settings.revision or weights.revision,
        "dtype": str(model.dtype).replace("torch.", ""),
        "quantization": str(model.quantization or "none"), "layout": str(layout),
        "draft_model": draft_model(vllm_config, settings), "tp_size": tp, "pp_size": pp,
        "cp_size": cp, "slice": 0, "slices": 1, "tenant_salt": settings.tenant_salt,
        "key_scheme": key_scheme(vllm_config, settings), "extra": extra,
    }


def _interleave(parallel: Any) -> str:
    """How tokens are dealt to context-parallel ranks."""
    return "/".join(str(getattr(parallel, name, 1)) for name in (
        "dcp_kv_cache_interleave_size", "cp_kv_cache_interleave_size"))


def _fields(common: Dict[str, Any], group: Group, parts: Sequence[Part],
            tokens: int) -> NamespaceFields:
    fields = dict(common)
    fields["layout"] = f"{common['layout']} {group.pool} {group.digest}"
    fields["dtype"] = f"{common['dtype']} cache {group.dtype}"
    fields["extra"] = tuple(common["extra"]) + (("group", str(group.index)),)
    return NamespaceFields(pool=group.pool, tokens_per_page=tokens, parts=tuple(parts), **fields)


def config_digest(vllm_config: Any) -> str:
    """Of every choice beside the model's files that changes the values in the cache."""
    model = vllm_config.model_config
    media = getattr(model, "multimodal_config", None)
    attention = getattr(vllm_config, "attention_config", None)
    chosen = {
        "model": {name: getattr(model, name, None) for name in MODEL_CHOICES},
        "media": {name: getattr(media, name, None) for name in MEDIA_CHOICES},
        "attention": {name: getattr(attention, name, None) for name in ATTENTION_CHOICES},
        "mamba": getattr(vllm_config, "mamba_config", None),
        "additional": getattr(vllm_config, "additional_config", None) or None,
        # The only KV dtype that the specs don't tell from its neighbours.
        "configuration": _configuration(model),
        "e5m2": getattr(vllm_config.cache_config, "cache_dtype", None) == "fp8_e5m2",
    }
    if depends_on_length(getattr(model, "hf_config", None)):
        chosen["length"] = model.max_model_len
    if getattr(vllm_config.cache_config, "calculate_kv_scales", False):
        # Scales come from this engine's first prompts: nobody else has them.
        chosen["scales"] = own_id(vllm_config)
    return digest_of(chosen)


def adapter_choices(vllm_config: Any) -> bytes:
    """How adapters are applied, where it isn't as vLLM does by default: to which modules, in which
    type. It changes what requests with an adapter leave in the cache, and no other."""
    lora = getattr(vllm_config, "lora_config", None)
    if lora is None:
        return b""
    dtype = getattr(lora, "lora_dtype", "auto")
    chosen = {
        "dtype": None if str(dtype) in ("auto", str(vllm_config.model_config.dtype)) else dtype,
        "modules": sorted(getattr(lora, "target_modules", None) or ()),
        "tower": getattr(lora, "enable_tower_connector_lora", False)}
    return digest_of(chosen).encode() if any(chosen.values()) else b""


def _configuration(model: Any) -> Optional[str]:
    """Of a configuration that doesn't lie beside the weights."""
    path = getattr(model, "hf_config_path", None)
    if not path or path == model.model:
        return None
    if os.path.isdir(path):
        return folder_fingerprint(path)
    return f"{path} {getattr(getattr(model, 'hf_config', None), '_commit_hash', None)}"


def depends_on_length(hf_config: Any) -> bool:
    """Whether the longest allowed sequence changes the values of short ones, as in longrope."""
    as_dict = hf_config.to_dict() if hasattr(hf_config, "to_dict") else {}
    waiting: List[Any] = [as_dict]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            rope = value.get("rope_type", value.get("type") if "factor" in value else None)
            if rope is not None and rope not in ROPE_WITHOUT_LENGTH:
                return True
            if value.get("dual_chunk_attention_config"):
                return True
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
    return False


def draft_model(vllm_config: Any, settings: Settings) -> str:
    """The speculative method, and which weights draft."""
    speculative = getattr(vllm_config, "speculative_config", None)
    if speculative is None:
        return "none"
    method = str(getattr(speculative, "method", None) or "draft")
    model = getattr(speculative, "draft_model_config", None)
    target = vllm_config.model_config
    if model is None or method in ("ngram", "ngram_gpu", "suffix"):
        return method
    if model.model == target.model:
        return f"{method} of the model"
    load = getattr(speculative, "draft_load_config", None) or vllm_config.load_config
    weights = weights_of(model, load, settings.own_id)
    return f"{method} {weights.model} {weights.revision}"


def key_scheme(vllm_config: Any, settings: Settings) -> str:
    """How vLLM makes its block hashes. The seed itself may be a secret: only its digest shows."""
    algorithm = getattr(vllm_config.cache_config, "prefix_caching_hash_algo", "sha256")
    seed = os.environ.get("PYTHONHASHSEED")
    if seed is None and random_seed_remedy(vllm_config) is not None:
        return f"vllm {algorithm} seed of {settings.own_id}"
    text = "default" if seed is None else hashlib.blake2b(
        seed.encode(), digest_size=8, person=b"kvs-seed").hexdigest()
    return f"vllm {algorithm} seed {text}"


def random_seed_remedy(vllm_config: Any) -> Optional[str]:
    """A sentence for the log when block hashes are seeded at random, else None."""
    if os.environ.get("PYTHONHASHSEED") is not None:
        return None
    algorithm = getattr(vllm_config.cache_config, "prefix_caching_hash_algo", "sha256")
    if not algorithm.startswith("xxhash") and _default_seed_is_fixed():
        return None
    return (f"block hashes ({algorithm}) are seeded at random in each process, so nothing is found "
            "again after a restart or by other engines; set PYTHONHASHSEED to the same number "
            "for all of them")


def _default_seed_is_fixed() -> bool:
    try:
        from vllm.v1.core import kv_cache_utils
    except ImportError:
        return True
    return hasattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED")


def sharing_hints(vllm_config: Any, settings: Settings) -> List[str]:
    """Why pages of this engine wouldn't be found by others, each with its remedy. For the log."""
    hints = [random_seed_remedy(vllm_config)]
    if settings.revision is None:
        weights = weights_of(vllm_config.model_config, vllm_config.load_config, settings.own_id)
        if not weights.known:
            hints.append(f"which revision of {weights.model} this is can't be found out here, so "
                         "its pages are this engine's alone; set revision in "
                         "kv_connector_extra_config")
    return [hint for hint in hints if hint is not None]


def release() -> str:
    """"0.32" of vLLM: kernels and layouts may change from one to the next."""
    try:
        from vllm import __version__
    except ImportError:
        return "unknown"
    found = re.match(r"\d+\.\d+", __version__)
    return found.group(0) if found else str(__version__)


def platform_name(vllm_config: Any) -> str:
    """What picks kernels, and with them the order of bytes inside a block."""
    device = str(getattr(vllm_config.device_config, "device_type", "cpu"))
    if device == "cpu":
        return " ".join(["cpu", platform.machine()] + cpu_flags())
    try:
        from vllm.platforms import current_platform
        return f"{device} {current_platform.get_device_capability()}"
    except Exception:  # a platform without capabilities: its name has to do
        return device


def cpu_flags(path: str = "/proc/cpuinfo") -> List[str]:
    """Of CPU_FLAGS, what this machine has: vLLM's CPU attention chooses its layout by them."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    words = set(line.split(":", 1)[1].split())
                    return [flag for flag in CPU_FLAGS if flag in words]
    except OSError:
        pass
    return []
