# SPDX-License-Identifier: Apache-2.0
"""A kvsidecard of a test's own, which can be killed and started again."""
import glob
import os
import select
import signal
import socket
import subprocess

START_S = 60

CONFIG = """
[daemon]
runtime_dir = "{folder}/run"
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
permissions = {permissions}
"""


class Daemon:
    """Runs while the `with` block does; start() waits for READY=1 on its notification socket."""

    count = 0

    def __init__(self, program, folder,
                 permissions='["read", "put", "clear", "admin"]'):
        Daemon.count += 1
        self.program, self.folder, self.permissions = program, str(folder), permissions
        self.pool = f"python-test-{os.getpid()}-{Daemon.count}"
        self.socket = os.path.join(self.folder, "run", "kvsidecar.sock")
        self.config = os.path.join(self.folder, "kvsidecar.toml")
        self.process = None

    def __enter__(self):
        for name in ("run", "state", "store"):
            os.makedirs(os.path.join(self.folder, name))
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.folder, pool=self.pool, uid=os.getuid(),
                                     permissions=self.permissions))
        self.start()
        return self

    def start(self):
        notify = os.path.join(self.folder, "notify")
        if os.path.exists(notify):
            os.unlink(notify)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(notify)
            self.process = subprocess.Popen(
                [self.program, "--config", self.config, "--no-supervisor"],
                env=dict(os.environ, NOTIFY_SOCKET=notify))
            ended = os.pidfd_open(self.process.pid)
            try:
                while True:
                    readable, _, _ = select.select([ready, ended], [], [], START_S)
                    assert ready in readable, f"{self.program} ended or didn't get ready"
                    if b"READY=1" in ready.recv(4096):
                        return
            finally:
                os.close(ended)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.kill()
        for path in glob.glob(f"/dev/shm/kvsidecar.{self.pool}.*"):
            os.unlink(path)
