# SPDX-License-Identifier: Apache-2.0
"""Goal: an identity is the same in every process, whatever seeds its interpreter, speaks its user's
language or orders its dictionaries. (Bug report O1-08.)

Method: processes of other hash seeds, locales and encodings compute the ids of the golden vectors
and of fields that are absent, empty and zero; the C++ tests read the same golden file.
"""
import json
import os
import subprocess
import sys

import pytest


SCRIPT = """
import dataclasses, json, sys
import kvsidecar
with open(sys.argv[1], encoding="utf-8") as file:
    vectors = json.load(file)["vectors"]
ids = {}
for vector in vectors:
    values = dict(reversed(list(vector["fields"].items())))
    detach = values.pop("detach", None)
    values["parts"] = [kvsidecar.Part(kvsidecar.Coordinate(p["tp"], p["pp"], p["cp"]), p["bytes"])
                       for p in values["parts"]]
    fields = kvsidecar.NamespaceFields(**values)
    detach = None if detach is None else bytes.fromhex(detach)
    ids[vector["name"]] = kvsidecar.namespace_id(fields, detach).hex()
for name in ("adapter", "tenant_salt", "key_scheme"):
    for value in (None, "", "0"):
        one = dataclasses.replace(fields, **{name: value})
        ids[f"{name}={value!r}"] = kvsidecar.namespace_id(one).hex()
print(json.dumps(ids))
"""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VECTORS = os.path.join(ROOT, "tests", "unit", "ipc", "identity_vectors.json")
SURROUNDINGS = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
    {"PYTHONHASHSEED": "4294967295", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
    {"PYTHONHASHSEED": "random", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "2"},
]


def ids_in(surroundings, library):
    environment = dict(os.environ, KVSIDECAR_LIBRARY=library, **surroundings,
                       PYTHONPATH=os.path.join(ROOT, "clients", "python"))
    answer = subprocess.run([sys.executable, "-B", "-c", SCRIPT, VECTORS], env=environment,
                            capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def ids(library):
    return [ids_in(surroundings, library) for surroundings in SURROUNDINGS]


def test_every_process_computes_the_golden_ids(ids):
    with open(VECTORS, encoding="utf-8") as file:
        golden = {v["name"]: v["namespace_id"] for v in json.load(file)["vectors"]}
    for found in ids:
        assert {name: found[name] for name in golden} == golden


def test_all_agree_on_what_is_absent_empty_or_zero_and_keep_them_apart(ids):
    assert all(found == ids[0] for found in ids)
    for name in ("adapter", "tenant_salt", "key_scheme"):
        assert len({ids[0][f"{name}={value!r}"] for value in (None, "", "0")}) == 3, name
