# SPDX-License-Identifier: Apache-2.0
"""Engines in processes of their own, each forked from one that has imported everything already.

    engine_process.py DOOR

DOOR is a socket's descriptor. A request there is JSON: {"fork": [socket, page bytes, uid or null]}
with two descriptors, the engine's stdin and stdout, answered with its pid; or {"reap": pid},
answered with how it ended, as os.waitpid tells it.

An engine takes a command a line on stdin, as JSON [name, arguments…], and gives an answer a line on
stdout, as JSON. `work` goes on until the next line comes in and tells of its progress meanwhile.
The process ends with its stdin.
"""
import json
import os
import random
import select
import socket
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "harness"),
                os.path.join(os.path.dirname(TESTS), "clients", "python")]

from kvsidecar import Status  # noqa: E402

import content  # noqa: E402
from daemon import die_with_parent  # noqa: E402
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

    def __init__(self, path, page_bytes):
        self.engine = Engine(path, BLOCKS, page_bytes, connect_timeout=20,
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


def live(path, page_bytes):
    worker = Worker(path, page_bytes)
    say("ready")
    for line in commands:
        name, *arguments = json.loads(line)
        say("answer", getattr(worker, name)(*arguments))
    worker.engine.close()


def become_engine(pipes, path, page_bytes, uid):
    """The child's life. It never returns into the server's."""
    code = 1
    try:
        die_with_parent()
        for to, pipe in enumerate(pipes):
            os.dup2(pipe, to)
            os.close(pipe)
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            die_with_parent()  # a change of the user ends it
        live(path, page_bytes)
        code = 0
    except BaseException:  # whatever it is, the tests read it
        traceback.print_exc()
    finally:
        os._exit(code)


def main():
    door = socket.socket(fileno=int(sys.argv[1]))
    while True:
        text, pipes, _, _ = socket.recv_fds(door, 4096, 2)
        if not text:
            return
        request = json.loads(text)
        if "reap" in request:
            answer = os.waitpid(request["reap"], 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                door.close()
                become_engine(pipes, *request["fork"])
        for pipe in pipes:
            os.close(pipe)
        door.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
