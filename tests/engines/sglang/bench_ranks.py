# SPDX-License-Identifier: Apache-2.0
"""Ranks of one engine, each a process of its own, that ask at the same instant: SGLang's do, since
they wait for each other between their questions."""
import gc
import multiprocessing
import os
import time
import traceback
from types import SimpleNamespace

from bench_backends import FILE, HTTP, LOCAL, OURS, Files, Sidecar, hf3fs
from bench_pages import Inputs, Shape
from daemon import die_with_parent
from waiting import readable

SHAPE = Shape(layers=1, heads=1, head_dim=8, pages=128)  # keys alone count here
BATCH = 128  # pages that SGLang stores at once
HF3FS_BYTES = 16 << 20
INSTANT_S = 0.005  # between those at which all of them may ask: a barrier lets go one by one
ANSWER_S = 120


def store(backend, inputs, keys):
    for first in range(0, len(keys), BATCH):
        part = keys[first:first + BATCH]
        slots = inputs.slots(backend.shape, len(part))
        backend.pages.write(slots, inputs.values(backend.shape, len(part)))
        backend.set(part, slots)
    backend.settle()


def _rank(number, count, wire, barrier):
    die_with_parent()
    try:
        told = wire.recv()
        inputs = Inputs(told["seed"])
        keys = inputs.keys(told["keys"])
        node = SimpleNamespace(daemon=SimpleNamespace(**told["daemon"]), settle=lambda: None)
        server = SimpleNamespace(**told["server"])
        backends = {
            OURS: Sidecar(node, SHAPE, "ranks", number, count),
            LOCAL: hf3fs(LOCAL, told["folder"], SHAPE, HF3FS_BYTES, rank=number),
            HTTP: hf3fs(HTTP, told["folder"], SHAPE, HF3FS_BYTES, server, number),
            FILE: Files(told["folder"], SHAPE, number, count)}
        for backend in backends.values():
            store(backend, inputs, keys)
        barrier.wait(ANSWER_S)
        wire.send(None)
        while True:
            name, questions = wire.recv()
            wire.send(_ask(backends[name], keys, questions, barrier))
    except EOFError:
        os._exit(0)  # their own exits may wait for each other
    except BaseException:
        traceback.print_exc()
        barrier.abort()
        os._exit(1)


def _ask(backend, keys, questions, barrier):
    """Seconds of each question."""
    seconds = []
    for _ in range(questions):
        barrier.wait(ANSWER_S)
        readable([], 2 * INSTANT_S - time.monotonic() % INSTANT_S)
        began = time.perf_counter()
        found = backend.query(keys)
        seconds.append(time.perf_counter() - began)
        assert found == len(keys), f"{backend.name} found {found} of {len(keys)} pages"
    return seconds


class Ranks:
    """Forked at once: before this process has threads, and after it has imported SGLang."""

    def __init__(self, count):
        gc.collect()
        gc.freeze()  # else collections would be the longest part of many a question
        context = multiprocessing.get_context("fork")
        barrier = context.Barrier(count)
        self._wires, self._processes = [], []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_rank, args=(number, count, theirs, barrier),
                                      daemon=True)
            process.start()
            theirs.close()
            self._wires.append(ours)
            self._processes.append(process)

    def prepare(self, **told):
        """All of them have stored their pages when it returns."""
        for wire in self._wires:
            wire.send(told)
        self._answers()

    def ask(self, name, questions):
        """Seconds of every rank's questions."""
        for wire in self._wires:
            wire.send((name, questions))
        return [one for seconds in self._answers() for one in seconds]

    def _answers(self):
        answers = []
        for wire in self._wires:
            assert wire.poll(ANSWER_S), "a rank doesn't answer"
            answers.append(wire.recv())
        return answers

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()
