# SPDX-License-Identifier: Apache-2.0
"""The hand-written package `sglang`, and the doors over a real daemon."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "fake"), HERE]

import sglang.srt.runtime_context  # noqa: E402


@pytest.fixture(autouse=True)
def no_server_args():
    """Each test begins in a process whose engine has told nothing about itself."""
    context = sglang.srt.runtime_context.get_context()
    yield
    context.set_server_args(None)
    context._resolved, context._overrides_log = {}, []


@pytest.fixture
def open_backend(library):
    """open_backend(daemon or socket path, …): a HiCache; see hicache_scene.backend."""
    import hicache_scene
    made = []

    def make(daemon, **how):
        made.append(hicache_scene.backend(getattr(daemon, "socket", daemon), **how))
        return made[-1]

    yield make
    for backend in made:
        backend.close()
