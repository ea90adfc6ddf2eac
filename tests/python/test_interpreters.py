# SPDX-License-Identifier: Apache-2.0
"""Goal: the package works on every interpreter it says it is written for: 3.9 and later.

Method: each python3.X found (PATH, /usr/local, /opt, pyenv, uv) runs one script that needs nothing
but the standard library: import, identity against the golden vectors, buffers, and the client
library's ids and answers without a daemon. One that isn't there is no skip; none beside the
running one is.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATTERNS = ("/usr/bin", "/usr/local/bin", "/opt/*/bin", "~/.pyenv/versions/*/bin",
            "~/.local/share/uv/python/*/bin")

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import array, json
import kvsidecar
with open(sys.argv[2], encoding="utf-8") as file:
    vectors = json.load(file)["vectors"]
for vector in vectors:
    values = dict(vector["fields"])
    detach = values.pop("detach", None)
    values["parts"] = [kvsidecar.Part(kvsidecar.Coordinate(p["tp"], p["pp"], p["cp"]), p["bytes"])
                       for p in values["parts"]]
    fields = kvsidecar.NamespaceFields(**values)
    detach = None if detach is None else bytes.fromhex(detach)
    assert kvsidecar.encode_identity(fields, detach).hex() == vector["encoded"], vector["name"]
    assert kvsidecar.namespace_id(fields, detach).hex() == vector["namespace_id"], vector["name"]
client = kvsidecar.Client(sys.argv[3], connect_timeout=0.01, allow_disconnected=True)
memory = client.create_memory(8192)
memory.view[0] = 1
layout = client.register_layout(2, [kvsidecar.Run(memory, 0, 4096, 4096)])
namespace = client.attach(fields)
put = client.put(namespace, b"k" * 32, layout, array.array("I", [0, 1]), key_bytes=16)
assert put.finished and list(put.result().items) == [kvsidecar.Status.UNAVAILABLE] * 2
assert client.close() == kvsidecar.Status.OK
print(len(vectors))
"""


def version_of(program):
    """(major, minor) of an interpreter; None for what is none or doesn't run."""
    try:
        answer = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2])"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                                check=True, text=True).stdout
        return tuple(int(number) for number in answer.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def interpreters():
    """One of each version from 3.9 on, the running one included: {(3, 9): path}."""
    folders = os.environ.get("PATH", "").split(":")
    for pattern in PATTERNS:
        folders += glob.glob(os.path.expanduser(pattern))
    found = {sys.version_info[:2]: sys.executable}
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "python3.*"))):
            if re.fullmatch(r"python3\.\d+", os.path.basename(path)) and shutil.which(path):
                version = version_of(path)
                if version and version >= (3, 9):
                    found.setdefault(version, path)
    return found


FOUND = interpreters()


@pytest.mark.parametrize("version", sorted(FOUND), ids=lambda v: f"{v[0]}.{v[1]}")
def test_the_package_works_on(version, library, tmp_path):
    vectors = os.path.join(ROOT, "tests", "unit", "ipc", "identity_vectors.json")
    done = subprocess.run(
        [FOUND[version], "-B", "-I", "-c", SCRIPT, os.path.join(ROOT, "clients", "python"), vectors,
         str(tmp_path / "nobody.sock")],
        env=dict(os.environ, KVSIDECAR_LIBRARY=library), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    with open(vectors, encoding="utf-8") as file:
        assert int(done.stdout) == len(json.load(file)["vectors"])


def test_more_than_one_interpreter_was_found():
    if len(FOUND) == 1:
        pytest.skip("no python3.X from 3.9 on beside the running one")


def test_the_package_is_typed():
    assert os.path.exists(os.path.join(ROOT, "clients", "python", "kvsidecar", "py.typed"))
