# SPDX-License-Identifier: Apache-2.0
"""Goal: Python and C++ make the same identity of the same fields, and refuse the same ones.

Method: the golden vectors that the C++ tests read too; ids through the client library.
"""
import json
import os

import pytest

import kvsidecar

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REQUIRED_TEXTS = ("model", "revision", "dtype", "quantization", "layout", "pool", "draft_model")

with open(os.path.join(ROOT, "tests", "unit", "ipc", "identity_vectors.json"),
          encoding="utf-8") as vectors_file:
    VECTORS = json.load(vectors_file)


def fields_of(values):
    """(NamespaceFields, detach) of a vector; a required text that isn't there is None."""
    values = dict(values)
    detach = values.pop("detach", None)
    values["parts"] = [
        kvsidecar.Part(kvsidecar.Coordinate(part["tp"], part["pp"], part["cp"]), part["bytes"])
        for part in values["parts"]]
    for name in REQUIRED_TEXTS:
        values.setdefault(name, None)
    return kvsidecar.NamespaceFields(**values), None if detach is None else bytes.fromhex(detach)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_canonical_form_is_the_golden_one(vector):
    fields, detach = fields_of(vector["fields"])
    assert kvsidecar.encode_identity(fields, detach).hex() == vector["encoded"]


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_id_is_the_golden_one(vector, library):
    fields, detach = fields_of(vector["fields"])
    assert kvsidecar.namespace_id(fields, detach).hex() == vector["namespace_id"]
    assert kvsidecar.namespace_id(bytes.fromhex(vector["encoded"])).hex() == vector["namespace_id"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_what_is_refused_names_its_field(vector):
    fields, detach = fields_of(vector["fields"])
    with pytest.raises(kvsidecar.Misuse) as refusal:
        kvsidecar.encode_identity(fields, detach)
    assert vector["field"] in str(refusal.value)


def test_a_required_field_has_no_default():
    with pytest.raises(TypeError, match="revision"):
        kvsidecar.NamespaceFields(model="m")


def test_a_description_is_entries_sorted_by_tag_without_what_is_absent():
    description = kvsidecar.Description(
        parent_key=b"\x01\x02", token_ids=[7, 8], block_size=16, adapter="a", pool_group=0)
    assert description.encode().hex() == (
        "0100020000000102" "0200080000000700000008000000" "03000400000010000000"
        "04000100000061" "06000400000000000000")
    assert kvsidecar.Description().encode() == b""
