# SPDX-License-Identifier: Apache-2.0
"""Goal: a replay judges a daemon by its work, not by how fast its pool came up: what can't be put
yet is waited for, at the start and after the kill in the middle.
Method: where the pool's only chunk should be lies something else, until the daemon has logged that
it doesn't get it."""
import contextlib
import json
import os
import signal
import subprocess

import pytest
from daemon import Daemon, built, die_with_parent
from waiting import eventually


@pytest.fixture
def daemon(tmp_path):
    """One that has made its pool, a single chunk, and has ended."""
    without_store = {"kind": "none", "root": None, "capacity_bytes": None, "segment_bytes": None}
    with Daemon(tmp_path, host_pool={"bytes": "32MiB"}, store=without_store) as daemon:
        assert daemon.terminate() == 0
        yield daemon


@contextlib.contextmanager
def replay_of(daemon):
    process = subprocess.Popen(
        [built("kvsidecar"), "replay", "--daemon", built("kvsidecard"), "--config",
         daemon.write_config(), "--socket", daemon.socket, "--requests", "2000",
         "--page-bytes", "4096", "--json"],
        stdout=subprocess.PIPE, preexec_fn=die_with_parent, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def times_logged(daemon, event):
    with contextlib.suppress(FileNotFoundError):
        with open(daemon.path("kvsidecar.toml.log"), encoding="utf-8") as log:
            return log.read().count(event)
    return 0


def report_of(replay):
    report = json.loads(replay.communicate(timeout=120)[0])
    assert replay.returncode == 0, report
    assert report["bytes_wrong"] == 0 and report["failed_requests"] == 0, report
    return report


def test_a_replay_begins_when_the_pool_stands(daemon):
    chunk, = daemon.shm_files()
    os.unlink(chunk)
    os.symlink("nowhere", chunk)
    with replay_of(daemon) as replay:
        eventually(lambda: times_logged(daemon, "chunk_failed"), "the daemon gets no chunk")
        os.unlink(chunk)
        assert report_of(replay)["pages_host"] > 0


def test_engines_take_their_time_until_the_pool_is_back(daemon):
    chunk, = daemon.shm_files()
    kept = chunk + ".kept"
    os.rename(chunk, kept)
    os.symlink("nowhere", chunk)
    with replay_of(daemon) as replay:
        eventually(lambda: times_logged(daemon, "chunk_failed"), "the daemon gets no chunk")
        os.kill(replay.pid, signal.SIGSTOP)  # before its engines run
        os.unlink(chunk)
        os.rename(kept, chunk)
        eventually(lambda: times_logged(daemon, "chunk_ready"), "the daemon gets its chunk")
        os.rename(chunk, kept)  # it goes on with it
        os.symlink("nowhere", chunk)
        os.kill(replay.pid, signal.SIGCONT)
        eventually(lambda: times_logged(daemon, "chunk_failed") > 1, "the next gets no chunk")
        os.unlink(chunk)
        os.rename(kept, chunk)
        assert report_of(replay)["after_restart_hits"] > 0
