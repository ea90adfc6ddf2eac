# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one engine as two processes of a worker program, which takes its rank, their number
and a file to meet at as arguments, commands as lines of JSON, and answers with {"value": …}."""
import json
import os
import subprocess
import sys

from daemon import die_with_parent

HERE = os.path.dirname(os.path.abspath(__file__))


class RankProcesses:
    """Told the same or one alone."""

    def __init__(self, folder, worker, log):
        """`worker`: a program of this folder; `log`: the file in KVSIDECAR_LOGS for its stderr."""
        with open(os.path.join(os.environ["KVSIDECAR_LOGS"], log), "ab") as stderr:
            self.processes = [subprocess.Popen(
                [sys.executable, os.path.join(HERE, worker), str(rank), "2",
                 str(folder / "store")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=stderr, text=True, preexec_fn=die_with_parent) for rank in range(2)]

    def begin(self, rank, name, **arguments):
        wire = self.processes[rank].stdin
        wire.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        wire.flush()

    def answer(self, rank):
        while True:
            line = self.processes[rank].stdout.readline()
            assert line, f"rank {rank} has ended"
            if line.startswith('{"value"'):
                return json.loads(line)["value"]

    def one(self, rank, name, **arguments):
        self.begin(rank, name, **arguments)
        return self.answer(rank)

    def both(self, name, **arguments):
        for rank in range(2):
            self.begin(rank, name, **arguments)
        return [self.answer(rank) for rank in range(2)]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.kill()
            process.wait()
