# SPDX-License-Identifier: Apache-2.0
"""The Python client's part of `kvsidecar bench --python`, which starts it: attaches to the daemon
at the socket named, reads a task a line and answers each with the median of one round in
nanoseconds. What a round is stands in clients/cli/bench/work.h; keys and block numbers are the
lists that engines have."""
from __future__ import annotations

import os
import random
import statistics
import sys
import time
from typing import Callable, List

import kvsidecar

PAGE_BYTES, SMALL_PAGE_BYTES, KEY_BYTES = 256 << 10, 4096, 16
BATCH, BATCHES = 64, 8
KEYS, PROMPTS = 512, 64
SINGLES = LOOKUPS = 200


class Engine:
    """One namespace with its blocks."""

    def __init__(self, client: kvsidecar.Client, page_bytes: int, blocks: int) -> None:
        self.client = client
        memory = client.create_memory(page_bytes * blocks)
        memory.view[:] = b"\x5a" * (page_bytes * blocks)
        self.layout = client.register_layout(
            blocks, [kvsidecar.Run(memory, 0, page_bytes, page_bytes)])
        self.namespace = client.attach(kvsidecar.NamespaceFields(
            model="bench-python", revision="1", dtype="uint8", quantization="none", layout="flat",
            pool="kv", draft_model="none", tokens_per_page=16, tp_size=1, pp_size=1, cp_size=1,
            slice=0, slices=1, parts=[kvsidecar.Part(kvsidecar.Coordinate(), page_bytes)]))
        self.blocks = list(range(blocks))
        self.keys: List[bytes] = []

    def new_keys(self, count: int) -> None:
        self.keys = [os.urandom(KEY_BYTES) for _ in range(count)]

    def transfer(self, call: Callable[..., kvsidecar.Op], keys: List[bytes]) -> kvsidecar.Result:
        result = call(self.namespace, keys, self.layout, self.blocks[:len(keys)]).result()
        if result.succeeded != len(keys):
            raise RuntimeError(f"a transfer of the bench ended with {result!r}"[:200])
        return result


class Work:
    def __init__(self, client: kvsidecar.Client) -> None:
        self.client = client
        self.large = Engine(client, PAGE_BYTES, BATCH * BATCHES)
        self.small = Engine(client, SMALL_PAGE_BYTES, KEYS)
        self.random = random.Random(1)
        self.singles: List[bytes] = []
        self.prompts = [[os.urandom(KEY_BYTES) for _ in range(KEYS)] for _ in range(PROMPTS)]
        for prompt in self.prompts:
            self.small.transfer(client.put, prompt)

    def batches(self, call: Callable[..., kvsidecar.Op]) -> float:
        engine, spent = self.large, []
        for first in range(0, BATCH * BATCHES, BATCH):
            self.random.shuffle(engine.blocks)
            keys = engine.keys[first:first + BATCH]
            begin = time.monotonic_ns()
            engine.transfer(call, keys)
            spent.append(time.monotonic_ns() - begin)
        return statistics.median(spent)

    def pages(self, call: Callable[..., kvsidecar.Op]) -> float:
        spent = []
        for key in self.singles:
            begin = time.monotonic_ns()
            self.large.transfer(call, [key])
            spent.append(time.monotonic_ns() - begin)
        return statistics.median(spent)

    def put(self) -> float:
        self.large.new_keys(BATCH * BATCHES)
        return self.batches(self.client.put)

    def get(self) -> float:
        if not self.large.keys:
            self.put()
        return self.batches(self.client.get)

    def put_page(self) -> float:
        self.singles = [os.urandom(KEY_BYTES) for _ in range(SINGLES)]
        return self.pages(self.client.put)

    def get_page(self) -> float:
        if not self.singles:
            self.put_page()
        return self.pages(self.client.get)

    def lookup(self) -> float:
        spent = []
        for number in range(LOOKUPS):
            prompt = self.prompts[number % PROMPTS]
            begin = time.monotonic_ns()
            found = self.client.lookup(prompt, self.small.namespace).result()
            spent.append(time.monotonic_ns() - begin)
            if found.longest != KEYS:
                raise RuntimeError(f"a lookup found {found.longest} pages instead of {KEYS}")
        return statistics.median(spent)

    def own(self) -> float:
        """What a batch of 512 costs beside the time from the C library's call to its end."""
        spent = []
        for prompt in self.prompts:
            begin = time.monotonic_ns()
            result = self.small.transfer(self.client.get, prompt)
            spent.append(time.monotonic_ns() - begin - (result.finished_ns - result.submitted_ns))
        return statistics.median(spent)


TASKS = ("put", "get", "put_page", "get_page", "lookup", "own")


def main(socket: str) -> None:
    with kvsidecar.Client(socket, name="bench-python", default_timeout=30) as client:
        work = Work(client)
        for line in sys.stdin:
            task = line.strip()
            if task not in TASKS:
                raise ValueError(f"the Python client has no task {task!r}")
            print(getattr(work, task)(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
