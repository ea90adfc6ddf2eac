# SPDX-License-Identifier: Apache-2.0
"""Starts engine_process.py and talks to it."""
import json
import os
import signal
import subprocess
import sys
import time

from daemon import die_with_parent
from waiting import DEADLINE_S, readable

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine_process.py")


class EngineProcess:
    """One client process. Its constructor doesn't wait for it."""

    def __init__(self, socket, page_bytes=65536, uid=None):
        def before_exec():
            die_with_parent()
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)

        self.process = subprocess.Popen(
            [sys.executable, "-B", PROGRAM, socket, str(page_bytes)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, preexec_fn=before_exec)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.buffer = b""
        self.is_ready = False

    @property
    def pid(self):
        return self.process.pid

    def line(self, seconds=DEADLINE_S):
        """Its next line, parsed."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            assert readable([self.process.stdout], end - time.monotonic()), \
                f"engine {self.pid} says nothing for {seconds} s"
            more = self.process.stdout.read(65536)
            assert more != b"", f"engine {self.pid} has ended"
            self.buffer += more or b""
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def wait_ready(self):
        if not self.is_ready:
            assert self.line(60) == ["ready"]
            self.is_ready = True
        return self

    def begin(self, name, *arguments):
        self.process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self.process.stdin.flush()

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

    def progress(self, since=0, epoch=None):
        """Reads until it has served more than `since` requests; the number. `epoch`: counting only
        those that this life of the daemon answered."""
        while True:
            line = self.line()
            assert line[0] == "progress", line
            if line[1] > since and epoch in (None, line[2]):
                return line[1]

    def drop_lines(self):
        """Forgets what it has said so far."""
        self.buffer += self.process.stdout.read() or b""
        lines = self.buffer.split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            assert line.startswith(b'["progress"'), line
        return json.loads(lines[-1])[1] if lines else 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close_pipes()

    def close_pipes(self):
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def send(self, signal_number):
        self.process.send_signal(signal_number)

    def pause(self):
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self):
        self.send(signal.SIGCONT)

    def end(self):
        """Lets it end by itself; the exit code."""
        self.process.stdin.close()
        code = self.process.wait(DEADLINE_S)
        self.close_pipes()
        return code
