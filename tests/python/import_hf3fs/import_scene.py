# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the command, run against a daemon of the test's own, and a small backend to import
from. No conftest: the tests of the folder above import theirs by that name."""
import json
import socket
import subprocess

import pytest

from daemon import built
from hf3fs_files import SHAPES, Backend, fields_of, random_bytes, scene

TIMEOUT_S = 120
MLA = SHAPES["mla page_first"]


@pytest.fixture
def silent_server():
    """An address that refuses connections, and goes on doing so."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def run(library, daemon, silent_server):
    def run_import(*arguments, expect=0, server=silent_server, **more):
        command = [built("kvsidecar"), "import-hf3fs", *arguments, "--json", "--socket",
                   daemon.socket] + (["--server", server] if server else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=TIMEOUT_S, **more)
        assert done.returncode == expect, done.stdout + done.stderr
        return json.loads(done.stdout)
    return run_import


@pytest.fixture
def tell(daemon):
    def run_command(*arguments):
        return subprocess.run([built("kvsidecar"), *arguments, "--socket", daemon.socket],
                              stdout=subprocess.PIPE, text=True, check=True,
                              timeout=TIMEOUT_S).stdout
    return run_command


@pytest.fixture
def small(client, tmp_path):
    """Four pages of an MLA model, saved."""
    backend = Backend(tmp_path)
    table = backend.table(0, "kv", MLA.record_bytes)
    parts = [random_bytes(MLA.part_bytes, 7, number) for number in range(4)]
    for number, part in enumerate(parts):
        MLA.write(table, number, part)
    backend.save()
    space = client.attach(fields_of(MLA))
    return scene(backend=backend, table=table, parts=parts, space=space,
                 id=space.namespace_id.hex(),
                 arguments=[*backend.arguments(), "--namespace", space.namespace_id.hex()])
