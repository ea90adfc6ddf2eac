# SPDX-License-Identifier: Apache-2.0
"""An engine in a process of its own.

    engine_process.py SOCKET PAGE_BYTES

A command a line on stdin, as JSON [name, arguments…]; an answer a line on stdout, as JSON. `work`
goes on until the next line comes in and tells of its progress meanwhile. The process ends with its
stdin.
"""
import json
import os
import random
import select
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "clients", "python")]

from kvsidecar import Status  # noqa: E402

import content  # noqa: E402
from engine import Engine  # noqa: E402

BLOCKS = 32
PROMPT_PAGES = 12
STEP_S = 0.5  # deadline of one operation


def say(*values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


# Unbuffered: a line that is here must be seen by select.
commands = os.fdopen(0, "rb", buffering=0)


def asked():
    return bool(select.select([commands], [], [], 0)[0])


class Worker:
    """Requests like an engine's: a prompt is a leading run of a document; what the node has is
    loaded and compared, the rest is computed and put."""

    def __init__(self, socket, page_bytes):
        self.engine = Engine(socket, BLOCKS, page_bytes, connect_timeout=20,
                             default_timeout=STEP_S, reconnect_min=0.002, reconnect_max=0.02,
                             log=lambda level, text: None)
        self.report = dict(requests=0, loaded=0, missed=0, put=0, failed=0, wrong=0)

    def request(self, chance, documents):
        engine, document = self.engine, chance.randrange(documents)
        length = chance.randint(1, PROMPT_PAGES)
        keys = content.keys(range(length), salt=document.to_bytes(4, "little"))
        found = engine.lookup(keys, lease=chance.choice((0, 1.0))).result()
        longest = found.longest if found.ok else 0
        loaded = 0
        if longest:
            got = engine.get(keys[:longest], lease=found.lease).result()
            for i in engine.wrong(keys[:longest], got):
                self.report["wrong"] += 1
                say("wrong", document, i, Status(int(got.items[i])).name)
            loaded = next((i for i, item in enumerate(got.items) if item != Status.OK), longest)
        if found.lease:
            engine.client.release(found.lease).result()
        if loaded < length:
            stored = engine.put(keys[loaded:], loaded).result()
            self.report["put"] += stored.succeeded
            self.report["failed"] += length - loaded - stored.succeeded
        self.report["loaded"] += loaded
        self.report["missed"] += longest - loaded
        self.report["requests"] += 1
        return found.ok

    def work(self, seed, documents):
        chance = random.Random(seed)
        while not asked():
            if self.request(chance, documents):
                say("progress", self.report["requests"], self.engine.client.epoch)
            else:
                self.engine.client.wait_connected(0.1)
        return self.report

    def put(self, first, count, salt):
        return self.engine.put(content.keys(range(first, first + count), salt.encode()),
                               timeout=10).result().items.tolist()

    def get(self, first, count, salt):
        """Statuses, and how many blocks are wrong."""
        keys = content.keys(range(first, first + count), salt.encode())
        got = self.engine.get(keys, timeout=10).result()
        return got.items.tolist(), len(self.engine.wrong(keys, got))

    def begin_put(self, first, count, salt):
        """Begins a put and doesn't wait for it: somebody is about to end or stop this process."""
        self.begun = self.engine.put(content.keys(range(first, first + count), salt.encode()),
                                     timeout=10)
        return self.begun.id

    def connects(self):
        return self.engine.client.connection().connects


def main():
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    say("ready")
    for line in commands:
        name, *arguments = json.loads(line)
        say("answer", getattr(worker, name)(*arguments))
    worker.engine.close()


if __name__ == "__main__":
    main()
