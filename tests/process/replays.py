# SPDX-License-Identifier: Apache-2.0
"""`kvsidecar replay` for tests: a process beside the test, its report, and a daemon that a replay
starts only when the test lets it."""
import contextlib
import errno
import json
import os
import subprocess

from daemon import built, die_with_parent
from waiting import eventually

PAGE_BYTES = 16384
ENGINES = 2
ANSWER_S = 120


class Replay:
    """Runs until its requests are through, or its seconds."""

    def __init__(self, daemon, requests, *more):
        self._errors = daemon.path("replay.errors")
        with open(self._errors, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [built("kvsidecar"), "replay", "--socket", daemon.socket, "--requests",
                 str(requests), "--page-bytes", str(PAGE_BYTES), "--engines", str(ENGINES),
                 "--json", *more],
                stdout=subprocess.PIPE, stderr=errors, preexec_fn=die_with_parent, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def errors(self):
        with open(self._errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for_kill(self):
        """Of a replay with a daemon of its own: until it has killed that, in its middle."""
        eventually(lambda: "SIGKILL" in self.errors(), "the daemon is killed",
                   pid=self.process.pid, seconds=ANSWER_S)

    def report(self):
        """Of a replay that passed: no wrong byte, no failed request, engines that came through."""
        text = self.process.communicate(timeout=ANSWER_S)[0]
        assert self.process.returncode == 0, (text, self.errors())
        report = json.loads(text)
        assert report["bytes_wrong"] == 0 and report["failed_requests"] == 0, report
        return report


class GatedDaemon:
    """A program that is kvsidecard from when the test opens its gate; again for each start."""

    def __init__(self, folder):
        self.program = os.path.join(folder, "gated-kvsidecard")
        self._gate = os.path.join(folder, "gate")
        os.mkfifo(self._gate)
        with open(self.program, "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nread word < {self._gate}\nexec {built("kvsidecard")} "$@"\n')
        os.chmod(self.program, 0o755)

    @contextlib.contextmanager
    def held(self):
        """Its next start waits in front of the gate when this begins, and goes on when it ends."""
        gate = eventually(self._opened, "it wants to start", seconds=ANSWER_S)
        with open(gate, "w", encoding="utf-8") as file:
            yield
            file.write("go\n")

    def _opened(self):
        try:
            return os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as nobody_reads:
            assert nobody_reads.errno == errno.ENXIO
            return None

    def let_in(self):
        with self.held():
            pass
