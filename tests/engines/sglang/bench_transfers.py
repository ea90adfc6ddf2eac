# SPDX-License-Identifier: Apache-2.0
"""What storing and reading one batch of pages takes, on the wall and of the processors."""
import collections
import time

from bench_pages import inverted


class WrongBytes(Exception):
    """A get has said that the pages are there, and they weren't."""


class Times:
    """{backend: [seconds of each round]} of each row."""

    def __init__(self):
        self.of = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(self, row, backend, seconds):
        self.of[row][backend.name].append(seconds)


def timed(do, *arguments):
    began = time.perf_counter()
    do(*arguments)
    return time.perf_counter() - began


class Round:
    """One batch of pages, the same for every backend."""

    def __init__(self, inputs, shape, pages):
        self.values = inputs.values(shape, pages)
        self.others = inverted(self.values)
        self.inputs, self.shape, self.count = inputs, shape, pages
        self.keys, self.again = inputs.keys(pages), inputs.keys(pages)
        self.from_slots, self.to_slots = inputs.slots(shape, pages), inputs.slots(shape, pages)

    def fill(self, backend):
        backend.pages.write(self.from_slots, self.values)

    def read(self, backend, keys):
        """Seconds of a get, of which every byte is right."""
        backend.pages.write(self.to_slots, self.others)
        seconds = timed(backend.get, keys, self.to_slots)
        self.check(backend)
        return seconds

    def check(self, backend):
        if not backend.pages.holds(self.to_slots, self.values):
            raise WrongBytes(f"{backend.name}: a page that was got isn't what was stored")


def warm(backends, inputs, shape, pages):
    """One batch in either way, and files as large as they'll be."""
    for backend in backends:
        held = Round(inputs, shape, pages)
        held.fill(backend)
        backend.set(held.keys, held.from_slots)
        backend.set_until_stored(held.again, held.from_slots)
        backend.query(held.keys)
        held.read(backend, held.keys)
        backend.settle()
        backend.forget(held.keys + held.again)


def in_memory(times, backends, inputs, shape, pages):
    """A round of rows 1 to 3 and of the processors' time."""
    batch = Round(inputs, shape, pages)
    for backend in inputs.shuffled(backends):
        batch.fill(backend)
        times.add("set", backend, timed(backend.set, batch.keys, batch.from_slots))
        backend.settle()
        before = backend.cpu_s()
        times.add("store", backend, timed(backend.set_until_stored, batch.again,
                                          batch.from_slots))
        spent = backend.cpu_s() - before
        assert backend.query(batch.again) == pages  # as SGLang asks before each get
        backend.pages.write(batch.to_slots, batch.others)
        before = backend.cpu_s()
        times.add("get", backend, timed(backend.get, batch.again, batch.to_slots))
        times.add("cpu", backend, spent + backend.cpu_s() - before)
        batch.check(backend)
        backend.settle()
        backend.forget(batch.keys + batch.again)


def from_store(times, backends, inputs, shape, pages):
    """A round of row 4: each reads a batch that it has read since it was started, and then another,
    which counts."""
    batch = Round(inputs, shape, pages)
    for backend in backends:
        batch.fill(backend)
        backend.set_until_stored(batch.keys, batch.from_slots)
        backend.set_until_stored(batch.again, batch.from_slots)
        backend.restarted()
    for backend in inputs.shuffled(backends):
        batch.read(backend, batch.again)
        times.add("read", backend, batch.read(backend, batch.keys))
        backend.settle()
        backend.forget(batch.keys + batch.again)
