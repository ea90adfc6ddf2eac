# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of engines: forked from one that has imported vLLM already, one for each
set of variables."""
import json
import os
import signal
import socket
import subprocess

from daemon import die_with_parent
from waiting import readable

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORT_S, FOREVER_S = 240, 3600
# Read when an engine starts, not at import: engines that differ in it have one parent.
LATE = ("VLLM_ENABLE_V1_MULTIPROCESSING",)
_parents = {}


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


def _parent_of(python, variables, log_path):
    key = json.dumps([python, sorted(variables.items())])
    if key not in _parents:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(log_path, "ab") as log, theirs:
            subprocess.Popen(
                [python, os.path.join(HERE, "engine_parent.py"), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=variables, preexec_fn=die_with_parent)
        ours.settimeout(IMPORT_S)
        _parents[key] = ours
    return _parents[key]


def start_engine_process(python, variables, folder, wire, log_path):
    """wire: the socket over which the engine is told what to do."""
    late = {name: variables[name] for name in LATE}
    early = {name: value for name, value in variables.items() if name not in LATE}
    # What pytest sets for each test is no reason for another parent.
    early.pop("PYTEST_CURRENT_TEST", None)
    parent = _parent_of(python, early, log_path)
    with open(log_path, "ab") as log:
        told = json.dumps({"folder": folder, "environment": late}).encode()
        socket.send_fds(parent, [told], [wire.fileno(), log.fileno()])
    answer = parent.recv(64)
    assert answer, f"no engine can be forked; see {log_path}"
    return ForkedProcess(int(answer))
