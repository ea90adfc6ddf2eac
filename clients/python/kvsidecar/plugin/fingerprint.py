# SPDX-License-Identifier: Apache-2.0
"""Which weights a name stands for: a hub snapshot's commit, else a fingerprint of a folder's files.

Also the canonical text of configuration values that goes into namespaces: equal in every process
for equal values, never an address or a hash seed. Needs no engine.
"""
from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import re
import struct
from fractions import Fraction
from typing import Any, Dict, List, NamedTuple, Optional

CONFIG_ENDINGS = (".json", ".py")  # read whole: configuration, weight index, the model's own code
CONFIG_BYTES_MAX = 64 << 20
WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".ckpt", ".npz", ".tensors")
LOADED_FROM_ELSEWHERE = ("dummy", "tensorizer")  # weights that don't lie beside the configuration
# What of these changes changes no page.
INDIFFERENT = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")
HEADER_BYTES_MAX = 64 << 20
SAMPLE_BYTES = 64 << 10
SAMPLES = 4  # of each weight file, beside its header

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT = re.compile(r"/models--([^/]+)/snapshots/([0-9a-f]{40})(?:/|$)")


class Weights(NamedTuple):
    """What a model's weights are called in a namespace."""

    model: str
    revision: str
    known: bool  # False: the revision is this engine's alone, because nobody could find it out


def weights_of(model_config: Any, load_config: Any, own_id: str) -> Weights:
    """Of a model_config with the names of vLLM's ModelConfig (model; where there are any revision,
    hf_config, hf_config_path, model_weights), the target's or a draft's, and a load_config with its
    load_format. own_id: of this start of the engine. Reads files; asks no network."""
    path = str(model_config.model)
    snapshot = _SNAPSHOT.search(path)
    name = snapshot.group(1).replace("--", "/") if snapshot else path
    if os.path.isdir(path) and not snapshot:
        name = os.path.basename(os.path.normpath(os.path.abspath(path)))
    # Made-up ones are there to be overwritten by a trainer.
    if getattr(load_config, "load_format", None) in LOADED_FROM_ELSEWHERE:
        return Weights(name, f"unknown of {own_id}", False)
    if getattr(model_config, "model_weights", ""):  # of an object store: a copy lies anywhere
        return Weights(str(model_config.model_weights), f"unknown of {own_id}", False)
    if snapshot:
        return Weights(name, snapshot.group(2), True)
    if os.path.isdir(path):
        try:
            return Weights(name, folder_fingerprint(path), True)
        except OSError:
            return Weights(name, f"unknown of {own_id}", False)
    if os.path.isfile(path):
        try:
            return Weights(os.path.basename(path), file_fingerprint(path).hex(), True)
        except OSError:
            return Weights(name, f"unknown of {own_id}", False)
    commit = hub_commit(path, model_config)
    return Weights(name, commit or f"unknown of {own_id}", commit is not None)


def hub_commit(model: str, model_config: Any) -> Optional[str]:
    """The commit of a hub model: as asked for, as its configuration was loaded from, or as the
    hub's cache has it."""
    asked = getattr(model_config, "revision", None) or "main"
    if _COMMIT.fullmatch(asked):
        return str(asked)
    loaded = getattr(getattr(model_config, "hf_config", None), "_commit_hash", None)
    elsewhere = getattr(model_config, "hf_config_path", None) not in (None, "", model)
    if not elsewhere and isinstance(loaded, str) and _COMMIT.fullmatch(loaded):
        return loaded
    home = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub")
    try:
        path = os.path.join(home, "models--" + model.replace("/", "--"), "refs", asked)
        with open(path, encoding="ascii") as file:
            commit = file.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def folder_fingerprint(folder: str) -> str:
    """Over all configuration and, of each weight file, name, size, times, header and samples.
    Raises OSError."""
    digest = hashlib.blake2b(digest_size=16, person=b"kvs-weights")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name in INDIFFERENT or not os.path.isfile(path):
            continue
        if name.endswith(CONFIG_ENDINGS):
            with open(path, "rb") as file:
                content = hashlib.blake2b(file.read(CONFIG_BYTES_MAX), digest_size=16).digest()
        elif name.endswith(WEIGHT_ENDINGS):
            content = file_fingerprint(path)
        else:
            continue
        encoded = name.encode("utf-8", "surrogateescape")
        digest.update(struct.pack("<I", len(encoded)) + encoded + content)
    return digest.hexdigest()


def file_fingerprint(path: str) -> bytes:
    """16 bytes over a weight file's size, times, header and samples of the rest: what was written
    anew differs in one of them, even where its times were put back. Raises OSError."""
    at = os.stat(path)
    digest = hashlib.blake2b(struct.pack("<QQ", at.st_size, at.st_mtime_ns), digest_size=16)
    with open(path, "rb") as file:
        header = 8
        if path.endswith(".safetensors"):
            start = file.read(8)
            if len(start) == 8:
                header = min(8 + struct.unpack("<Q", start)[0], HEADER_BYTES_MAX)
            file.seek(0)
        digest.update(file.read(header))
        rest = max(at.st_size - header - SAMPLE_BYTES, 0)
        for i in range(SAMPLES):
            file.seek(header + rest * i // (SAMPLES - 1))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.digest()


def canonical(value: Any) -> str:
    """A value as text. What has no text of its own counts by its type alone."""
    if value is None or isinstance(value, (bool, int, float, str, Fraction)) and not isinstance(
            value, enum.Enum):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        entries = sorted((str(key), canonical(entry)) for key, entry in value.items())
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(canonical(entry) for entry in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(canonical(entry) for entry in value)) + "}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields: Dict[str, Any] = {field.name: getattr(value, field.name)
                                  for field in dataclasses.fields(value)}
        return type(value).__name__ + canonical(fields)
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    named: List[str] = [str(getattr(value, part, "")) for part in ("__module__", "__qualname__")]
    return ".".join(named) if all(named) else type(value).__qualname__


def digest_of(value: Any) -> str:
    """16 bytes of the canonical text, as hex."""
    return hashlib.blake2b(canonical(value).encode("utf-8", "surrogatepass"),
                           digest_size=16).hexdigest()
