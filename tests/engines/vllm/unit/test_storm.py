# SPDX-License-Identifier: Apache-2.0
"""Goal: no order of requests, aborts, resets, lost pages, a stopped and a killed daemon brings a
wrong byte to a request, an engine that stops, or a block that never comes back.

Method: seeded storms over rig.py with a small cache, so that requests are preempted as well.
"""
import random

import pytest

from rig import FULL, PAGE
from scene import GROUPS, daemon, filled, forget, make_rig, prompt, seed, settle  # noqa: F401

ACTIONS = 120
STEPS = 4


class Storm:
    def __init__(self, rig, daemon, words):
        self.rig, self.daemon, self.words = rig, daemon, words
        self.trunks = [prompt(words.randrange(1 << 30), words.randrange(40, 160))
                       for _ in range(4)]
        self.prompts, self.stopped, self.count = {}, False, 0

    def come(self):
        """A prompt that shares its beginning with others, sometimes all of it."""
        trunk = self.words.choice(self.trunks)
        tail = prompt(self.words.randrange(1 << 30), self.words.choice((0, 1, 31, 40)))
        name = f"r{self.count}"
        self.count += 1
        self.prompts[name] = trunk[:self.words.randrange(1, len(trunk) + 1)] + tail \
            if self.words.random() < 0.5 else trunk + tail
        self.rig.add(name, self.prompts[name], self.words.randrange(1, 40))

    def go(self):
        if self.rig.scheduler.requests:
            name = self.words.choice(sorted(self.rig.scheduler.requests))
            self.rig.abort(name)
            self.prompts.pop(name, None)

    def lose(self):
        """Pages vanish from the daemon."""
        tracks = self.rig.connector._scheduler._requests.tracks
        names = [name for name, track in tracks.items() if track.keys]
        if names and not self.stopped:
            forget(self.rig, self.words.choice(sorted(names)), self.words.randrange(3))

    def reset(self):
        self.rig.scheduler.reset_prefix_cache(reset_connector=self.words.random() < 0.5)

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
        for _ in range(self.words.randrange(20)):
            self.rig.step()
        self.daemon.start()

    def run(self):
        actions = [(self.come, 40), (self.go, 8), (self.lose, 8), (self.reset, 4), (self.stop, 6),
                   (self.kill, 1), (lambda: None, 33)]
        for _ in range(ACTIONS):
            self.words.choices(*zip(*actions))[0]()
            for _ in range(self.words.randrange(STEPS)):
                self.rig.step()
        if self.stopped:
            self.stop()
        self.rig.run()
        for name, one in self.prompts.items():
            count = len(self.rig.outputs[name])
            assert count and self.rig.reasons[name]
            self.rig.check_output(name, one, count)
        self.rig.check_empty()


@pytest.mark.parametrize("specs", GROUPS)
@pytest.mark.parametrize("number", range(4))
def test_a_storm_leaves_right_answers_and_nothing_else(make_rig, daemon, specs, number):
    words = random.Random(number)
    rig = make_rig({"lookup_deadline_ms": words.choice((1, 20)), "load_timeout_s": 0.1,
                    "store_timeout_s": 0.1, "on_reset": words.choice(("detach", "clear", "keep"))},
                   specs=specs, blocks=28, max_model_len=256,
                   max_num_batched_tokens=words.choice((64, 256)))
    Storm(rig, daemon, words).run()


@pytest.mark.parametrize("number", range(2))
def test_a_storm_of_two_ranks(make_rig, daemon, number):
    words = random.Random(100 + number)
    rig = make_rig({"lookup_deadline_ms": 5, "load_timeout_s": 0.1, "store_timeout_s": 0.1},
                   blocks=28, max_model_len=256, max_num_batched_tokens=128, ranks=2)
    Storm(rig, daemon, words).run()
