# SPDX-License-Identifier: Apache-2.0
"""A real kvsidecard of the build folder ($KVSIDECAR_BUILD) in a temporary directory; clients."""
import os
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
sys.path[:0] = [os.path.join(TESTS, "harness"), os.path.join(ROOT, "clients", "python")]
os.environ.setdefault("KVSIDECAR_BUILD", os.path.join(ROOT, "build", "release"))

from daemon import Daemon, built  # noqa: E402


@pytest.fixture(scope="session")
def library():
    """Path of the client library, which the package is told to use."""
    path = built("libkvsidecar-client.so.0")
    os.environ["KVSIDECAR_LIBRARY"] = path
    return path


@pytest.fixture
def daemon(library, tmp_path):
    with Daemon(tmp_path) as found:
        yield found


@pytest.fixture
def client(daemon):
    import kvsidecar
    with kvsidecar.Client(daemon.socket) as found:
        yield found
