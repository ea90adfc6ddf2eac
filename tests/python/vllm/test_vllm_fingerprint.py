# SPDX-License-Identifier: Apache-2.0
"""Goal: weights are known by what they are, not by what they are called (O1-03), and configuration
makes the same text in every process (O1-08).

Method: small folders in the shape of models, changed one thing at a time; canonical text in
processes with other hash seeds.
"""
import dataclasses
import enum
import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import pytest

from kvsidecar.plugin import fingerprint
from kvsidecar.plugin.fingerprint import (canonical, digest_of, file_fingerprint,
                                          folder_fingerprint, hub_commit, weights_of)
from vllm_fakes import config

COMMIT = "0123456789abcdef0123456789abcdef01234567"
AUTO = config(load_format="auto")


def safetensors(body, header=b'{"a":{"dtype":"F32"}}'):
    return struct.pack("<Q", len(header)) + header + body


def make(folder, body=bytes(1 << 20), header=b'{"a":{"dtype":"F32"}}', settings=b"{}"):
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(settings)
    (folder / "model.safetensors").write_bytes(safetensors(body, header))
    (folder / "tokenizer.json").write_bytes(b"{}")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    return str(folder)


def model(path, **values):
    return config(**{**dict(model=path, revision=None, hf_config=None, model_weights="", seed=0),
                     **values})


def test_a_copy_that_kept_its_times_has_the_same_fingerprint(tmp_path):
    one = make(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "two")
    assert folder_fingerprint(one) == folder_fingerprint(str(two))


def changed(folder, how):
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    if how == "configuration":
        (folder / "config.json").write_bytes(b'{"rope_theta": 1}')
    elif how == "code":
        (folder / "modeling.py").write_bytes(b"x = 1\n")
    elif how == "weight index":
        (folder / "model.safetensors.index.json").write_bytes(b"{}")
    elif how == "another weight file":
        (folder / "more.bin").write_bytes(b"1")
    elif how == "renamed":
        weights.rename(folder / "other.safetensors")
    elif how == "time":
        os.utime(weights, ns=(1, 2))
    else:
        at = {"header": 12, "first bytes": 60, "last bytes": len(data) - 1,
              "middle": 40 + (len(data) - 40 - fingerprint.SAMPLE_BYTES) // 3 + 5}[how]
        data[at] ^= 1
        weights.write_bytes(bytes(data) if how != "size" else bytes(data) + b"\0")
        os.utime(weights, ns=(1, 1))


@pytest.mark.parametrize("how", [
    "configuration", "code", "weight index", "another weight file", "renamed", "time", "header",
    "first bytes", "middle", "last bytes"])
def test_one_change_makes_another_fingerprint(tmp_path, how):
    folder = tmp_path / "model"
    before = folder_fingerprint(make(folder))
    changed(folder, how)
    assert folder_fingerprint(str(folder)) != before


def test_a_longer_file_with_its_times_put_back_has_another_fingerprint(tmp_path):
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    one.write_bytes(safetensors(bytes(100)))
    two.write_bytes(safetensors(bytes(101)))
    for path in (one, two):
        os.utime(path, ns=(1, 1))
    assert file_fingerprint(str(one)) != file_fingerprint(str(two))


@pytest.mark.parametrize("damage", [b"", b"1234", b"\xff" * 8, b"\xff" * 64])
def test_a_broken_weight_file_is_read_within_bounds(tmp_path, damage):
    path = tmp_path / "model.safetensors"
    path.write_bytes(damage)
    assert len(file_fingerprint(str(path))) == 16


def test_what_changes_no_page_changes_nothing(tmp_path):
    folder = tmp_path / "model"
    before = folder_fingerprint(make(folder))
    (folder / "tokenizer.json").write_bytes(b"[]")
    (folder / "generation_config.json").write_bytes(b"{}")
    (folder / "README.md").write_bytes(b"words")
    assert folder_fingerprint(str(folder)) == before


def test_a_folder_is_called_by_its_own_name(tmp_path):
    path = make(tmp_path / "deep" / "llama-8b")
    for spelled in (path, path + "/", os.path.join(path, ".", "")):
        found = weights_of(model(spelled), AUTO, "engine")
        assert found == ("llama-8b", folder_fingerprint(path), True)


def test_a_snapshot_of_the_hub_is_its_commit_whatever_its_files_times(tmp_path):
    path = make(tmp_path / "models--org--llama" / "snapshots" / COMMIT)
    assert weights_of(model(path), AUTO, "engine") == ("org/llama", COMMIT, True)


def test_a_name_of_the_hub_is_the_commit_that_was_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    other = COMMIT[::-1]
    assert hub_commit("org/llama", model("org/llama", revision=COMMIT)) == COMMIT
    loaded = config(_commit_hash=other)
    assert hub_commit("org/llama", model("org/llama", hf_config=loaded)) == other
    elsewhere = model("org/llama", hf_config=loaded, hf_config_path="org/configuration")
    assert hub_commit("org/llama", elsewhere) != other
    refs = tmp_path / "models--org--llama" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(COMMIT + "\n")
    assert weights_of(model("org/llama"), AUTO, "engine") == ("org/llama", COMMIT, True)
    (refs / "main").write_bytes(b"\xff\xfe")
    assert hub_commit("org/llama", model("org/llama")) is None


def test_weights_that_nobody_can_name_are_shared_with_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    one = weights_of(model("org/llama"), AUTO, "one")
    two = weights_of(model("org/llama"), AUTO, "two")
    assert not one.known and one.revision != two.revision
    stored = weights_of(model("/tmp/copy", model_weights="s3://models/llama"), AUTO, "one")
    assert stored.model == "s3://models/llama" and not stored.known


def test_a_folder_that_cannot_be_read_is_shared_with_nobody(tmp_path, monkeypatch):
    path = make(tmp_path / "model")

    def refuse(_):
        raise PermissionError

    monkeypatch.setattr(fingerprint, "file_fingerprint", refuse)
    assert not weights_of(model(path), AUTO, "engine").known


def test_a_single_weight_file_is_a_model_too(tmp_path):
    path = tmp_path / "llama.gguf"
    path.write_bytes(b"GGUF" * 100)
    found = weights_of(model(str(path)), AUTO, "engine")
    assert found == ("llama.gguf", file_fingerprint(str(path)).hex(), True)


@pytest.mark.parametrize("load_format", ["dummy", "tensorizer"])
def test_weights_that_come_from_elsewhere_are_known_to_nobody(tmp_path, load_format):
    """A trainer fills in made-up ones once the engine runs."""
    (tmp_path / "config.json").write_text("{}")
    for name in ("org/llama", str(tmp_path)):
        found = weights_of(model(name, revision=COMMIT), config(load_format=load_format), "engine")
        assert not found.known and "engine" in found.revision


class Kind(enum.Enum):
    A = 1


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Holder:
    b: object
    a: int = 2


VALUES = [None, True, False, 0, 1, -1, 1.0, 0.1, "", "1", "None", "a\nb", b"a", [], [1], [[1]],
          [1, 2], [2, 1], {}, {"a": 1}, {"a": 2}, {"b": 1}, {1, 2}, {1, 3}, Fraction(1, 2), Kind.A,
          Number.ONE, Holder(1), Holder("1"), Holder(1, 3), object, dict]


def test_values_that_differ_have_texts_that_differ():
    texts = [canonical(value) for value in VALUES]
    assert len(set(texts)) == len(texts)


def test_order_of_a_mapping_or_a_set_is_nothing():
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})
    assert canonical({"x", "y", "z"}) == canonical({"z", "y", "x"})
    assert canonical([1, 2]) == canonical((1, 2))


def test_an_object_without_a_text_counts_by_its_type():
    assert canonical(object()) == canonical(object())
    assert canonical(len) != canonical(max)


def test_processes_with_other_seeds_and_locales_make_the_same_text():
    program = ("import sys; sys.path[:0] = sys.argv[1:]\n"
               "from kvsidecar.plugin.fingerprint import digest_of\n"
               "print(digest_of({'b': {1, 2, 'x', 'y', 'z'}, 'a': [1.5, None, object()]}))")
    found = {subprocess.run(
        [sys.executable, "-c", program] + sys.path, check=True, capture_output=True, text=True,
        env=dict(os.environ, PYTHONHASHSEED=seed, LC_ALL=locale)).stdout
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4242", "POSIX"))}
    assert found == {digest_of({"a": [1.5, None, object()], "b": {1, 2, "x", "y", "z"}}) + "\n"}
