# SPDX-License-Identifier: Apache-2.0
"""Starts engines in processes of their own (engine_process.py) and talks to them."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from daemon import die_with_parent, proc_text
from waiting import DEADLINE_S, ended_within, eventually, readable

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine_process.py")


class Server:
    """Of which all engines are children: an interpreter's start would be most of a round."""

    def __init__(self):
        self.door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, "-B", PROGRAM, str(theirs.fileno())], pass_fds=[theirs.fileno()],
            preexec_fn=die_with_parent)
        theirs.close()

    def ask(self, request, descriptors=()):
        socket.send_fds(self.door, [json.dumps(request).encode()], descriptors)
        assert readable([self.door], 60), "the engines' server doesn't answer"
        return json.loads(self.door.recv(4096))

    _only = None

    @classmethod
    def only(cls):
        cls._only = cls._only or cls()
        return cls._only


class EngineProcess:
    """One client process. Its constructor doesn't wait for its client."""

    def __init__(self, path, page_bytes=65536, uid=None):
        stdin, own_in = os.pipe()
        own_out, stdout = os.pipe()
        self.pid = Server.only().ask({"fork": [path, page_bytes, uid]}, [stdin, stdout])
        os.close(stdin)
        os.close(stdout)
        self.pidfd = os.pidfd_open(self.pid)  # it is reaped on request only
        self.stdin = os.fdopen(own_in, "wb", buffering=0)
        self.stdout = os.fdopen(own_out, "rb", buffering=0)
        os.set_blocking(own_out, False)
        self.buffer = b""
        self.is_ready = False

    def line(self, seconds=DEADLINE_S):
        """Its next line, parsed."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            assert readable([self.stdout], end - time.monotonic()), \
                f"engine {self.pid} says nothing for {seconds} s"
            more = self.stdout.read(65536)
            assert more != b"", f"engine {self.pid} has ended: wait status {self.reap()}"
            self.buffer += more or b""
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def wait_ready(self):
        if not self.is_ready:
            assert self.line(60) == ["ready"]
            self.is_ready = True
        return self

    def begin(self, name, *arguments):
        self.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")

    def answer(self):
        while True:
            line = self.line()
            assert line[0] != "wrong", line
            if line[0] == "answer":
                return line[1]

    def ask(self, name, *arguments):
        self.wait_ready()
        self.begin(name, *arguments)
        return self.answer()

    def progress(self, since=0, after_epoch=0):
        """Reads until it has served more than `since` requests, by a later life of the daemon than
        `after_epoch`: (the number, that life's epoch)."""
        while True:
            line = self.line()
            assert line[0] == "progress", line
            if line[1] > since and line[2] > after_epoch:
                return line[1], line[2]

    def drop_lines(self):
        """Forgets what it has said so far, which tells of no wrong byte; how many requests it had
        served then."""
        more = self.stdout.read()
        while more:
            self.buffer += more
            more = self.stdout.read()
        lines = self.buffer.split(b"\n")
        self.buffer = lines.pop()
        served = 0
        for line in map(json.loads, lines):
            assert line[0] != "wrong", line
            served = line[1] if line[0] == "progress" else served
        return served

    def kill(self):
        self.send(signal.SIGKILL)
        assert ended_within(self.pidfd)
        self.drop_lines()
        assert self.reap() == signal.SIGKILL

    def reap(self):
        assert ended_within(self.pidfd), f"engine {self.pid} doesn't end"
        for pipe in (self.stdin, self.stdout):
            pipe.close()
        os.close(self.pidfd)
        return Server.only().ask({"reap": self.pid})

    def send(self, signal_number):
        signal.pidfd_send_signal(self.pidfd, signal_number)

    def pause(self):
        self.send(signal.SIGSTOP)
        eventually(lambda: re.search(r"^State:\tT", proc_text(self.pid, "status"), re.MULTILINE),
                   f"engine {self.pid} stands still")

    def resume(self):
        self.send(signal.SIGCONT)

    def end(self):
        """Lets it end by itself; the exit code."""
        self.stdin.close()
        return self.reap()
