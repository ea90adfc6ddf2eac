# SPDX-License-Identifier: Apache-2.0
"""A real kvsidecard of the build folder ($KVSIDECAR_BUILD) in a temporary directory; clients."""
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "clients", "python"))


def built(name):
    """The file of that name in the build folder; the test is skipped where it isn't built."""
    build = os.environ.get("KVSIDECAR_BUILD", os.path.join(ROOT, "build", "release"))
    for folder, _, files in os.walk(build):
        if name in files:
            return os.path.join(folder, name)
    pytest.skip(f"{name} is not in {build}")


@pytest.fixture(scope="session")
def library():
    """Path of the client library, which the package is told to use."""
    path = built("libkvsidecar-client.so.0")
    os.environ["KVSIDECAR_LIBRARY"] = path
    return path


@pytest.fixture
def daemon(library, tmp_path):
    from node import Daemon
    with Daemon(built("kvsidecard"), tmp_path) as found:
        yield found


@pytest.fixture
def client(daemon):
    import kvsidecar
    with kvsidecar.Client(daemon.socket) as found:
        yield found
