# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of engines, all of them forked from one that has imported SGLang."""
import json
import os
import signal
import socket
import subprocess
import sys

from daemon import die_with_parent
from waiting import readable

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORT_S, FOREVER_S = 240, 3600
_parent = None  # (its wire, its log)


class ForkedProcess:
    """As much of subprocess.Popen as the tests use, of a process that isn't a child."""

    def __init__(self, pid):
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def wait(self, timeout=None):
        if not readable([self._pidfd], FOREVER_S if timeout is None else timeout):
            raise subprocess.TimeoutExpired("engine", timeout)

    def kill(self):
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def __del__(self):
        os.close(self._pidfd)


def begin_import(log_path):
    """Starts the parent, which imports while the tests do something else."""
    global _parent
    if _parent is not None:
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(log_path, "ab") as log, theirs:
        subprocess.Popen(
            [sys.executable, os.path.join(HERE, "engine_parent.py"), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=die_with_parent)
    ours.settimeout(IMPORT_S)
    _parent = ours, log_path


def start_engine_process(folder, environment, wire, log_path):
    """wire: the socket over which the engine is told what to do. Its variables are those of this
    process and these; what an import looks at can't be changed so late."""
    begin_import(log_path)
    parent, parent_log = _parent
    with open(log_path, "ab") as log:
        told = json.dumps({"folder": folder, "environment": environment}).encode()
        socket.send_fds(parent, [told], [wire.fileno(), log.fileno()])
    answer = parent.recv(64)
    assert answer, f"no engine can be forked; see {parent_log}"
    return ForkedProcess(int(answer))
