# SPDX-License-Identifier: Apache-2.0
"""A kvsidecard of a test's own: small pool, temporary folders, its own user allowed everything."""
import glob
import os
import select
import signal
import socket
import subprocess

START_S = 30

CONFIG = """
[daemon]
runtime_dir = "{folder}/run"
socket = "{folder}/run/kvsidecar.sock"
state_dir = "{folder}/state"

[host_pool]
bytes = "32MiB"
chunk_bytes = "8MiB"
span_bytes = "2MiB"
name = "{pool}"

[store]
kind = "file"
root = "{folder}/store"
capacity_bytes = "256MiB"
segment_bytes = "8MiB"

[metrics]
listen = ""

[[allow]]
uid = {uid}
permissions = ["read", "put", "clear", "admin"]
"""


def write_config(folder, pool):
    """Writes folder/kvsidecar.toml and returns its path; socket: folder/run/kvsidecar.sock."""
    for name in ("run", "state", "store"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    path = os.path.join(folder, "kvsidecar.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(folder=folder, pool=pool, uid=os.getuid()))
    return path


def remove_pool(pool):
    for path in glob.glob(f"/dev/shm/kvsidecar.{pool}.*"):
        os.unlink(path)


class Daemon:
    """Runs while the `with` block does; entering waits for READY=1."""

    def __init__(self, program, folder, env=None):
        self.program = program
        self.folder = str(folder)
        self.pool = f"package-test-{os.getpid()}"
        self.socket = os.path.join(self.folder, "run", "kvsidecar.sock")
        self.env = dict(os.environ, **(env or {}))

    def __enter__(self):
        config = write_config(self.folder, self.pool)
        notify = os.path.join(self.folder, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(notify)
            self.process = subprocess.Popen(
                [self.program, "--config", config], env=dict(self.env, NOTIFY_SOCKET=notify))
            self._wait_until_ready(ready)
        return self

    def _wait_until_ready(self, ready):
        ended = os.pidfd_open(self.process.pid)
        try:
            while True:
                readable, _, _ = select.select([ready, ended], [], [], START_S)
                assert ready in readable, f"{self.program} ended or didn't get ready"
                if b"READY=1" in ready.recv(4096):
                    return
        finally:
            os.close(ended)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        remove_pool(self.pool)
