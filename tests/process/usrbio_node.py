# SPDX-License-Identifier: Apache-2.0
"""A node with 3FS: a mini3fs, and daemons whose store lies on it, reached in each of three ways: by
the builtin client, by the builtin client behind the library's C functions, and by the emulator of
the library, which is a fuse daemon within kvsidecard and keeps its files on the mount."""
import contextlib
import os
import re

import pytest

import accounts
from daemon import built
from mini3fs import Mini3fs, missing

BUILTIN = "builtin"
SHARED_BUILTIN = "tests/usrbio/shared_builtin"
EMULATOR = "tests/usrbio/emulator/lib"
WITHOUT_SUBMIT = "tests/unit/usrbio/without_submit"
WAYS = {"builtin": BUILTIN, "library": SHARED_BUILTIN, "emulator": EMULATOR}

CHUNK_BYTES = 1 << 20
STALL_MS = 500  # of the breaker
HEARTBEATS_S = 60.0  # a lost mount, a hanging one and the next attempts are seconds apart


def library(way):
    """The path of a library that was built for tests."""
    return os.path.join(os.environ["KVSIDECAR_BUILD"], way, "libhf3fs_api_shared.so")


@pytest.fixture
def mini3fs():
    reason = missing()
    if reason:
        pytest.skip(reason)
    server = Mini3fs(chunk_bytes=CHUNK_BYTES)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def make_node(mini3fs, make_daemon, monkeypatch):
    """Makes a Daemon with its store on mini3fs, not started. Settings as Daemon's, and what stands
    in [store.usrbio] as `usrbio`."""
    monkeypatch.setenv("KVSIDECAR_EMULATOR_MOUNT", mini3fs.mount)
    monkeypatch.setenv("KVSIDECAR_EMULATOR_CHUNK", str(CHUNK_BYTES))

    def make(way=BUILTIN, name="node", usrbio=None, store=None, **settings):
        root = os.path.join(mini3fs.mount, name)
        os.makedirs(os.path.join(mini3fs.data, name), exist_ok=True)
        daemon = make_daemon(
            name, store={"kind": "usrbio", "root": root, "stall_ms": STALL_MS, **(store or {})},
            **settings)
        client = {"client": "builtin"} if way == BUILTIN else \
            {"client": "library", "library": library(way)}
        daemon.sections["store.usrbio"] = {**client, **(usrbio or {})}
        return daemon

    yield make
    mini3fs.go_on()  # a process that waits for it can't even be killed


@pytest.fixture
def start_node(make_node):
    """Starts one and takes its baseline."""
    def begin(way=BUILTIN, name="node", **settings):
        daemon = make_node(way, name, **settings).start()
        daemon.baseline = accounts.take_baseline(daemon)
        return daemon

    return begin


def registered(server):
    """What is registered with the fuse daemon, but for its own semaphores."""
    return [name for name in server.registered() if not name.startswith("submit-ios")]


class Leftovers:
    """The files in /dev/shm of what was registered at some time: they must go with the daemon."""

    def __init__(self, server):
        self._server, self._paths = server, set()

    def look(self):
        """Whether there are any. They may go meanwhile."""
        iovs = os.path.join(self._server.mount, "3fs-virt", "iovs")
        names = registered(self._server)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._paths.add(os.readlink(os.path.join(iovs, name)))
        return bool(names)

    def check(self, daemon):
        """Of an ended daemon: its pool's chunks are for the next one, all else has gone."""
        assert registered(self._server) == []
        chunks = daemon.shm_files()
        assert all(re.search(r"\.\d+$", path) for path in chunks), chunks
        assert not [path for path in self._paths.difference(chunks) if os.path.exists(path)]


def described(daemon):
    """What the status says of the store."""
    return accounts.status(daemon)["store"]
