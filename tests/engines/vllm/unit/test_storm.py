# SPDX-License-Identifier: Apache-2.0
"""Goal: no order of requests, aborts, resets, lost pages, a stopped and a killed daemon brings a
wrong byte to a request, an engine that stops, or a block that never comes back.

Method: seeded storms over two engines of rig.py on one daemon, with small caches, so that requests
are preempted as well. $STORMS: how many of them.
"""
import os
import random
from collections import Counter

import pytest

from scene import GROUPS, daemon, filled, forget, make_rig, prompt, seed, settle  # noqa: F401

STORMS = int(os.environ.get("STORMS", "4"))
ACTIONS = 120
STEPS = 4


class Storm:
    def __init__(self, rigs, daemon, words):
        self.rigs, self.daemon, self.words = rigs, daemon, words
        self.trunks = [prompt(words.randrange(1 << 30), words.randrange(40, 160))
                       for _ in range(4)]
        self.prompts, self.stopped, self.count = {}, False, 0  # prompts: (rig, tokens)

    @property
    def rig(self):
        return self.words.choice(self.rigs)

    def come(self):
        """A prompt that shares its beginning with others, sometimes all of it."""
        trunk = self.words.choice(self.trunks)
        tail = prompt(self.words.randrange(1 << 30), self.words.choice((0, 1, 31, 40)))
        name = f"r{self.count}"
        self.count += 1
        if self.words.random() < 0.5:
            trunk = trunk[:self.words.randrange(1, len(trunk) + 1)]
        rig = self.rig
        self.prompts[name] = rig, trunk + tail
        rig.add(name, trunk + tail, self.words.randrange(1, 40))

    def go(self):
        rig = self.rig
        if rig.scheduler.requests:
            name = self.words.choice(sorted(rig.scheduler.requests))
            rig.abort(name)
            self.prompts.pop(name, None)

    def lose(self):
        """Pages vanish from the daemon."""
        rig = self.rig
        tracks = rig.connector._scheduler._requests.tracks
        names = [name for name, track in tracks.items() if track.keys]
        if names and not self.stopped:
            forget(rig, self.words.choice(sorted(names)), self.words.randrange(3))

    def reset(self):
        self.rig.scheduler.reset_prefix_cache(reset_connector=self.words.random() < 0.1)

    def stop(self):
        if self.stopped:
            self.daemon.resume()
        else:
            self.daemon.pause()
        self.stopped = not self.stopped

    def kill(self):
        if self.stopped:
            self.stop()
        self.daemon.kill()
        self.step(self.words.randrange(20))
        self.daemon.start()

    def run(self):
        """What all engines counted together."""
        actions = [(self.come, 40), (self.go, 6), (self.lose, 4), (self.reset, 16), (self.stop, 4),
                   (self.kill, 1), (lambda: None, 29)]
        for _ in range(ACTIONS):
            self.words.choices(*zip(*actions))[0]()
            self.step(self.words.randrange(STEPS))
        if self.stopped:
            self.stop()
        for rig in self.rigs:
            rig.run()
        for name, (rig, one) in self.prompts.items():
            count = len(rig.outputs[name])
            assert count and rig.reasons[name]
            rig.check_output(name, one, count)
        for rig in self.rigs:
            rig.check_empty()
        return sum((rig.counts() for rig in self.rigs), Counter())

    def step(self, count):
        for _ in range(count):
            for rig in self.rigs:
                rig.step()


def storms(make_rig, daemon, numbers, **values):
    """One after another on one daemon; what all engines counted together."""
    counts = Counter()
    for number in numbers:
        words = random.Random(number)
        settings = {"lookup_deadline_ms": words.choice((2, 20)), "load_timeout_s": 0.1,
                    "store_timeout_s": 0.1, "on_reset": ("keep", "clear", "detach")[number % 3]}
        rigs = [make_rig(settings, blocks=28, max_model_len=256,
                         max_num_batched_tokens=words.choice((64, 256)), **values)
                for _ in range(2)]
        counts += Storm(rigs, daemon, words).run()
        for rig in rigs:
            rig.close()
    return counts


@pytest.mark.parametrize("specs", GROUPS)
def test_storms_leave_right_answers_and_nothing_else(make_rig, daemon, specs):
    counts = storms(make_rig, daemon, range(STORMS), specs=specs)
    for name in ("load_pages_ok", "store_pages_ok", "store_pages_exists", "lookup_late", "resets"):
        assert counts[name], f"too calm: no {name} in {counts}"


def test_storms_over_two_ranks(make_rig, daemon):
    counts = storms(make_rig, daemon, range(100, 100 + STORMS // 2), ranks=2)
    assert counts["load_pages_ok"] and counts["store_pages_ok"]
