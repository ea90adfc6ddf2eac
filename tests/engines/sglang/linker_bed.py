# SPDX-License-Identifier: Apache-2.0
"""What the tests of door B on whole engines share: prompts, flags, and a watch over the linker of
each rank."""
import json
import os

import pytest
from engine import linker, prompt
from linker_names import NAMES, of_rank
from waiting import eventually

PAGE = 64
PLAIN, WATCHED = "kvsidecar.sglang:Linker", "linker_double:WatchedLinker"
LONG = prompt(1, 1000)
LONG_PAGES = 15
PROMPTS = [LONG, LONG[:500] + prompt(2, 300), prompt(3, 700), prompt(4, 70), prompt(5, 20)]
# How many tokens of each can be restored when all of them were stored.
RESTORABLE = [15 * PAGE, 12 * PAGE, 10 * PAGE, PAGE, 0]
ABORTED = "External KV cache load failed"
STANDS_S = 60


class Watch:
    """What the linker of one rank tells, and what it is told. Of several ranks each has its own."""

    def __init__(self, folder, rank=0, ranks=1):
        self.given = {name: str(folder / name) for name in NAMES}  # keys for the linkers
        self.paths = {name: of_rank(path, rank, ranks) for name, path in self.given.items()}
        os.mkfifo(self.paths["open"])

    def counts(self):
        if not os.path.exists(self.paths["counts"]):
            return {}
        with open(self.paths["counts"], encoding="utf-8") as file:
            return json.load(file)

    def make(self, name):
        with open(self.paths[name], "w", encoding="utf-8"):
            pass

    def remove(self, *names):
        for name in names:
            if os.path.exists(self.paths[name]):
                os.unlink(self.paths[name])

    def loading(self):
        """Requests whose load stood at the gate."""
        with open(self.paths["reached"], encoding="utf-8") as file:
            return int(file.read())

    def open_gate(self):
        with open(self.paths["open"], "wb"):
            pass

    def all_stored(self):
        """Until SGLang has heard of every offload that it began."""
        def settled():
            counts = self.counts()
            return counts.get("offloads") and \
                counts["offloads"] == counts["stored"] + counts["not_stored"]
        eventually(settled, "offloads are told", seconds=STANDS_S)


def flags(daemon, watch=None, **extra):
    """Patience: lookups wait for a machine that is busy with other things."""
    settings = {"socket": getattr(daemon, "socket", daemon), "lookup_us": 100_000,
                "on_reset": "keep", **extra}
    return linker(WATCHED, **watch.given, **settings) if watch else linker(PLAIN, **settings)


def same(outputs, wanted):
    return [output.ids for output in outputs] == [want.ids for want in wanted] and all(
        got == pytest.approx(want, abs=1e-4)
        for output, wanted in zip(outputs, wanted)
        for got, want in zip(output.logprobs, wanted.logprobs))


def wait_for_hits(engine, watch, want):
    """The daemon is used again, or for the first time."""
    def restored():
        engine.generate([LONG])
        watch.all_stored()
        engine.flush_cache()
        output = engine.generate([LONG])
        assert same(output, want[:1])
        return output[0].cached == LONG_PAGES * PAGE

    eventually(restored, "pages are restored", seconds=STANDS_S)
