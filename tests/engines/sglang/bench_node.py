# SPDX-License-Identifier: Apache-2.0
"""The processes beside the engines: kvsidecar's daemon over a store on tmpfs, and the metadata
server of SGLang's HF3FS backend as its manual starts it."""
import os
import socket
import subprocess
import sys
import urllib.request

import accounts
import kvsidecar
from daemon import Daemon, die_with_parent
from waiting import eventually

MEBIBYTE = 1 << 20
SERVER_S = 120  # it imports SGLang


class Node:
    """A daemon. threads: of its copies; None: as many as it takes by itself."""

    def __init__(self, folder, pool_mib, store_mib, threads=None):
        self.daemon = Daemon(
            os.path.join(folder, "node"), copy={"threads": threads},
            host_pool={"bytes": f"{pool_mib}MiB", "chunk_bytes": f"{pool_mib}MiB",
                       "span_bytes": "4MiB"},
            store={"capacity_bytes": f"{store_mib}MiB", "segment_bytes": "32MiB"})

    def start(self):
        self.daemon.start()
        self._whole()
        return self

    def _whole(self):
        planned = self.daemon.told("pool_bytes")
        eventually(lambda: self.status()["host_pool"]["bytes"] == planned and
                   self.status()["scanned"], "the pool is whole and the store is read",
                   pid=self.daemon.pid)

    def status(self):
        with kvsidecar.Client(self.daemon.socket, name="asker") as client:
            return accounts.status_by(client)

    def settle(self):
        def quiet():
            now = self.status()
            return not now["operations"] and not now["write_behind"]["pages"]

        eventually(quiet, "all is written behind", pid=self.daemon.pid)

    def restart_without_pool(self):
        self.settle()
        assert self.daemon.terminate() == 0, self.daemon.log()
        self.daemon.forget_pool()
        self.daemon.start()
        self._whole()

    def close(self):
        self.daemon.remove()


class MetadataServer:
    """url: with which ranks of any number may begin."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with open(os.path.join(folder, "metadata-server.log"), "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m",
                 "sglang.srt.mem_cache.storage.hf3fs.mini_3fs_metadata_server",
                 "--host", "127.0.0.1", "--port", str(port), "--persistence-path",
                 os.path.join(folder, "metadata.json"), "--save-interval", "60"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        self.pid = self._process.pid

    def wait_ready(self):
        eventually(self._answers, "the metadata server answers", pid=self.pid, seconds=SERVER_S,
                   look=0.1)
        return self

    def _answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/docs", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self):
        self._process.kill()
        self._process.wait()
