# SPDX-License-Identifier: Apache-2.0
"""A real kvsidecard of a test's own: small pool, own folders, own user allowed everything."""
import ctypes
import functools
import glob
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from waiting import DEADLINE_S, ended_within, eventually, readable

PERMISSIONS = ["read", "put", "clear", "admin"]
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_pools = 0


@functools.lru_cache(maxsize=None)
def built(name):
    """The file of that name in the build folder ($KVSIDECAR_BUILD)."""
    for folder, _, files in os.walk(os.environ["KVSIDECAR_BUILD"]):
        if name in files:
            return os.path.join(folder, name)
    raise AssertionError(f"{name} is not in {os.environ['KVSIDECAR_BUILD']}")


def die_with_parent():
    """For a child before its exec: nothing outlives a test run that is killed."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _toml(value):
    return json.dumps(value)  # numbers, texts, truths and lists are written alike


class Daemon:
    """Settings by section, over small defaults; a section's key that is None is left out. As a
    context it has its first chunk at the beginning and ends in order."""

    def __init__(self, folder, supervisor=False, allow=None, permissions=None, wrapper=(),
                 **sections):
        global _pools
        _pools += 1
        self.folder = str(folder)
        self.pool = f"test-{os.getpid()}-{_pools}"
        self.supervisor = supervisor
        self.wrapper = list(wrapper)  # a command that execs the daemon's
        os.makedirs(self.folder, exist_ok=True)
        self.sections = {
            "daemon": {"runtime_dir": self.path("run"), "state_dir": self.path("state"),
                       "drain_timeout_s": 10},
            "host_pool": {"bytes": "64MiB", "chunk_bytes": "32MiB", "span_bytes": "4MiB",
                          "name": self.pool},
            "copy": {"threads": 2},
            "store": {"kind": "file", "root": self.path("store"), "capacity_bytes": "256MiB",
                      "segment_bytes": "8MiB"},
            "limits": {},
            "metrics": {"listen": "127.0.0.1:0"},
        }
        for name, keys in sections.items():
            self.sections[name].update(keys)
        self.pool = self.sections["host_pool"]["name"]
        self.allow = allow or [{"uid": [os.getuid()], "permissions": permissions or PERMISSIONS}]
        self.process = None
        self.baseline = None
        self.killed_with_store = False  # slots of unfinished I/O may stay aside for a while
        self.store_was_harmed = False
        self._log_begin = 0  # of the present life's lines
        open(self.path("daemon.log"), "ab").close()
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(self.path("notify"))

    def path(self, name):
        return os.path.join(self.folder, name)

    @property
    def socket(self):
        return self.path("run/kvsidecar.sock")

    @property
    def pid(self):
        """Of the daemon itself, also under a supervisor."""
        with open(self.path("run/kvsidecard.pid"), encoding="utf-8") as file:
            return int(file.read().split()[0])

    def told(self, field):
        """A number of the line with which the present life began. The log is written behind."""
        pattern = r"\bstarted\b.*\b%s=(\d+)" % field
        found = eventually(lambda: re.search(pattern, self.log()[self._log_begin:]),
                           f"the log tells {field}")
        return int(found.group(1))

    def write_config(self, make_store=True):
        lines = []
        for section, keys in self.sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
        for entry in self.allow:
            lines.append("[[allow]]")
            lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
        if make_store:
            os.makedirs(self.path("store"), exist_ok=True)
        with open(self.path("kvsidecar.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return self.path("kvsidecar.toml")

    def spawn(self, make_store=True):
        """Starts the process and doesn't wait for it."""
        while readable([self._notify], 0):
            self._notify.recv(4096)
        self._log_begin = len(self.log())
        command = self.wrapper + [built("kvsidecard"), "--config", self.write_config(make_store)]
        if not self.supervisor:
            command.append("--no-supervisor")
        with open(self.path("daemon.log"), "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=die_with_parent,
                env=dict(os.environ, NOTIFY_SOCKET=self.path("notify")))
        return self

    def ready_or_ended(self, seconds=DEADLINE_S):
        """True as soon as the daemon says READY=1, False when it ends before."""
        pidfd = os.pidfd_open(self.process.pid)
        try:
            while True:
                ready = readable([self._notify, pidfd], seconds)
                assert ready, f"kvsidecard isn't ready:\n{self.log()}"
                if self._notify not in ready:
                    self.process.wait()
                    return False
                if b"READY=1" in self._notify.recv(4096):
                    return True
        finally:
            os.close(pidfd)

    def wait_ready(self, seconds=DEADLINE_S):
        assert self.ready_or_ended(seconds), f"kvsidecard has ended:\n{self.log()}"
        return self

    def start(self):
        return self.spawn().wait_ready()

    def __enter__(self):
        self.start().log_has(r"\bchunk_ready\b")  # until then a put is refused
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.running:
                assert self.terminate() == 0, self.log()
        finally:
            self.remove()

    def kill(self):
        """SIGKILL, and its end."""
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.killed_with_store = self.sections["store"]["kind"] == "file"

    def pause(self):
        """SIGSTOP to the daemon; returns when it stands still."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: re.search(r"^State:\tT", proc_text(pid, "status"), re.MULTILINE),
                   "the daemon stands still")

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self, seconds=DEADLINE_S):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=DEADLINE_S):
        pidfd = os.pidfd_open(self.process.pid)
        try:
            assert ended_within(pidfd, seconds), f"kvsidecard didn't end:\n{self.log()}"
        finally:
            os.close(pidfd)
        return self.process.wait()

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        with open(self.path("daemon.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def log_has(self, pattern, seconds=DEADLINE_S):
        """Of the present life; the log is written behind."""
        return eventually(lambda: re.search(pattern, self.log()[self._log_begin:]),
                          f"log has {pattern}", seconds=seconds)

    def http(self, path):
        """(status, text) of a page of the metrics server."""
        port = self.told("metrics_port")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def shm_files(self):
        folder = self.sections["host_pool"].get("directory", "/dev/shm")
        return sorted(glob.glob(f"{folder}/kvsidecar.{self.pool}.*"))

    def forget_pool(self):
        """Of a stopped daemon: what the next one finds is the store's alone."""
        for path in self.shm_files():
            os.unlink(path)

    def remove(self):
        """The end, whatever has happened before."""
        if self.running:
            if self.supervisor:  # its child dies with it
                self.process.kill()
            else:
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._notify.close()
        self.forget_pool()


def proc_text(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
