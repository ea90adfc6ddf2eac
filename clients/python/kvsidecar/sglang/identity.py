# SPDX-License-Identifier: Apache-2.0
"""What decides the bytes of a page and isn't in SGLang's keys. All ranks of an engine come to the
same answer. Data parallel rank and the engine's own name stay out: replicas share."""
from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple

from ..identity import Coordinate, NamespaceFields
from ..plugin.adapter_files import content_of, find_folder, stamp_of
from ..plugin.fingerprint import Weights, digest_of, weights_of
from .facts import Facts, release
from .ranks import Ranks
from .settings import Settings

# Beside the model's files: what changes the values that go into the cache, or their order.
CHOICES = (
    "dtype", "kv_cache_dtype", "quantization", "json_model_override_args", "model_impl",
    "decrypted_config_file", "context_length", "attention_backend", "prefill_attention_backend",
    "decode_attention_backend", "mm_attention_backend", "qsa_indexer_dtype", "modelopt_quant",
    "torchao_config", "rl_quant_profile", "dsa_prefill_backend", "dsa_decode_backend",
    "mamba_backend", "mamba_ssm_dtype", "enable_mamba_cache_stochastic_rounding",
    "mamba_cache_philox_rounds", "linear_attn_backend", "linear_attn_prefill_backend",
    "linear_attn_decode_backend", "enable_page_major_kv_layout", "enable_kv_cache_sharding",
    "device")
SPECULATIVE_CHOICES = (
    "speculative_draft_kv_cache_dtype", "speculative_draft_model_quantization",
    "speculative_draft_window_size", "speculative_draft_sink_size", "enable_multi_layer_eagle",
    "speculative_token_map", "uno_lora_path", "decrypted_draft_config_file")
# Load formats whose weights don't lie in the model's folder.
ELSEWHERE = ("dummy", "remote", "remote_instance", "tensorizer", "ckpt_engine", "modelexpress")
KEY_SCHEME = "sglang sha256"


@dataclass(frozen=True)
class Space:
    """One pool of a rank as the daemon knows it."""

    pool: str
    fields: NamespaceFields
    coordinate: Coordinate  # this rank's share of a page
    writes: bool  # of ranks that hold the same bytes only the first stores them
    clears: bool  # of the ranks that share the namespace only the first begins a new generation


@dataclass(frozen=True)
class Engine:
    """What is the same for all pools of a rank."""

    common: Dict[str, Any]  # arguments of NamespaceFields
    ranks: Ranks
    hints: Tuple[str, ...]  # why pages wouldn't be found by others, each with its remedy


def engine_of(facts: Facts, ranks: Ranks, settings: Settings, door: str,
              model_name: Optional[str] = None) -> Engine:
    """door: "hicache" or "linker"; they arrange bytes in their own ways and don't share.
    model_name: what SGLang calls the model, for a process whose server arguments can't be reached.
    Reads the model's files: seconds at most."""
    weights, hints = _weights(facts, settings, model_name)
    extra = [("engine", "sglang " + release()), ("door", door),
             ("config", config_digest(facts)), ("platform", platform_name(facts))]
    for name, value in (("weights version", settings.weights_version),
                        ("identity", settings.identity), ("adapters", adapters_digest(facts))):
        if value is not None:
            extra.append((name, value))
    return Engine({
        "model": settings.model or weights.model,
        "revision": settings.revision or weights.revision,
        "quantization": facts.text("quantization") or "none",
        "draft_model": draft_model(facts), "key_scheme": KEY_SCHEME,
        "tenant_salt": settings.tenant_salt, "extra": tuple(extra),
        "pp_size": ranks.pp_size, "cp_size": ranks.cp_size,
    }, ranks, tuple(hints))


def space_of(engine: Engine, pool: str, *, tokens: int, page_bytes: int, layout: str, dtype: str,
             replicated: bool, ranks: Optional[Ranks] = None) -> Space:
    """tokens: of a page; page_bytes: of this rank's share of it; layout: how these bytes are
    arranged, in any words; replicated: all tp ranks hold the same bytes. ranks: of a share of the
    heads instead of the engine's own."""
    ranks = ranks or engine.ranks
    number, slices = ranks.slice(replicated)
    coordinate = ranks.coordinate(replicated)
    parts = ranks.parts(page_bytes, replicated)
    fields = NamespaceFields(
        pool=pool, layout=layout, dtype=dtype, tokens_per_page=tokens, tp_size=ranks.tp_size,
        slice=number, slices=slices, parts=tuple(parts), **engine.common)
    return Space(pool, fields, coordinate, ranks.writes(replicated),
                 coordinate == parts[0].coordinate and ranks.writes(replicated))


def _weights(facts: Facts, settings: Settings,
             model_name: Optional[str]) -> Tuple[Weights, List[str]]:
    path = facts.text("model_path") or model_name or "unknown"
    found = _weights_at(path, facts.get("revision"), facts.text("load_format"), facts)
    hints = []
    if settings.revision is None and not found.known:
        hints.append(f"which revision of {found.model} this is can't be found out here, so its "
                     "pages are this engine's alone; set revision")
    if not facts.known:
        hints.append("SGLang's server arguments can't be reached in this process, so quantization, "
                     "overrides and speculative decoding aren't known; name them in identity")
    return found, hints


def _weights_at(path: str, revision: Any, load_format: str, facts: Facts) -> Weights:
    load = "dummy" if load_format in ELSEWHERE else load_format
    return weights_of(SimpleNamespace(model=path, revision=revision),
                      SimpleNamespace(load_format=load), engine_id(facts))


def draft_model(facts: Facts) -> str:
    """The speculative method, and which weights draft. Draft layers may lie in the target's
    pages."""
    method = facts.text("speculative_algorithm")
    if not method or method.lower() == "none":
        return "none"
    choices = digest_of([facts.get(name) for name in SPECULATIVE_CHOICES])
    path = facts.text("speculative_draft_model_path")
    if not path:
        return f"{method} {choices}"
    weights = _weights_at(path, facts.get("speculative_draft_model_revision"), facts.text(
        "speculative_draft_load_format") or facts.text("load_format"), facts)
    return f"{method} {weights.model} {weights.revision} {choices}"


def config_digest(facts: Facts) -> str:
    """Of every choice beside the model's files that changes the values in the cache."""
    chosen: Dict[str, Any] = {name: facts.get(name) for name in CHOICES}
    chosen["kv scales"] = file_digest(facts.text("quantization_param_path"))
    return digest_of(chosen)


def file_digest(path: str) -> Optional[str]:
    """Of a file's content, "unreadable" with its name where it can't be read; None: no file."""
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return f"unreadable {path}"


def adapters_digest(facts: Facts) -> Optional[str]:
    """Of the names and contents of the adapters that the engine started with: SGLang's keys know
    them by name and path alone. None: there are none. Those that come later get keys of their own
    at random, which nobody finds again."""
    found = []
    for name, path in facts.adapters():
        folder = find_folder(path)
        try:
            content = None if folder is None else content_of(folder, stamp_of(folder)).hex()
        except OSError:
            content = None
        found.append([name, path, content or f"unknown of {engine_id(facts)}"])
    return digest_of(sorted(found)) if found else None


def platform_name(facts: Facts) -> str:
    """What picks kernels. On a CPU SGLang's bytes don't depend on the instruction set's name."""
    device = facts.text("device") or "unknown"
    if device.startswith("cuda"):
        try:
            import torch
            return f"{device} {torch.cuda.get_device_capability()}"
        except Exception:  # a device without capabilities: its name has to do
            pass
    return device


def engine_id(facts: Facts) -> str:
    """The same in all processes of one start of an engine on this node, and in no other: they have
    one parent."""
    parent = os.getppid()
    words = [_text("/proc/sys/kernel/random/boot_id"), str(parent)]
    words.append(_text(f"/proc/{parent}/stat").rpartition(")")[2].split()[19:20].__repr__())
    words += [facts.text(name) for name in ("port", "nccl_port", "dist_init_addr", "random_seed",
                                            "model_path")]
    return hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
