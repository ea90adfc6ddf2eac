# SPDX-License-Identifier: Apache-2.0
"""A mount for each test: a mini3fs, or a folder of KVSIDECAR_USRBIO_MOUNT.

KVSIDECAR_MINI3FS is the program, KVSIDECAR_USRBIO_LIBRARY the library with the C interface; it also
comes first in LD_LIBRARY_PATH, since compiled programs look for it by its name.
"""
import os
import tempfile

import pytest

from mini3fs import Mini3fs


@pytest.fixture
def server():
    if os.environ.get("KVSIDECAR_USRBIO_MOUNT"):
        pytest.skip("the mount is real: its daemon isn't ours to restart")
    server = Mini3fs(os.environ["KVSIDECAR_MINI3FS"])
    yield server
    server.close()


@pytest.fixture
def folder(request):
    """A folder on 3FS."""
    mount = os.environ.get("KVSIDECAR_USRBIO_MOUNT")
    if mount:
        with tempfile.TemporaryDirectory(dir=mount) as made:
            yield made
    else:
        yield request.getfixturevalue("server").mount
