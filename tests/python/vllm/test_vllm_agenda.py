# SPDX-License-Identifier: Apache-2.0
"""Goal: a page is noticed in the step that makes it whole, whatever the steps compute; and steps
that compute a token of each request cost next to nothing.

Method: random schedules, each step compared with looking at every request.
"""
import random
from types import SimpleNamespace

import pytest

from kvsidecar.vllm.agenda import LOOK_AT_ALL_EVERY, Agenda

PAGE = 32


def output(new, running):
    """(request, computed, scheduled) each."""
    both = list(new) + list(running)
    return SimpleNamespace(
        num_scheduled_tokens={name: tokens for name, _, tokens in both},
        total_num_scheduled_tokens=sum(tokens for _, _, tokens in both),
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=computed)
                            for name, computed, _ in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[name for name, _, _ in running], resumed_req_ids=set(),
            num_computed_tokens=[computed for _, computed, _ in running]))


class Engine:
    """Requests that grow by what each step computes."""

    def __init__(self):
        self.computed, self.due = {}, {}
        self.agenda = Agenda(self.due)

    def step(self, new=(), running=None, tokens=1, lags=()):
        """lags: requests whose page's hash isn't known yet."""
        begun = [(name, 0, count) for name, count in new]
        for name, _, _ in begun:
            self.computed[name], self.due[name] = 0, PAGE
        names = [name for name in self.computed if name not in dict(new)]
        grown = [(name, self.computed[name], tokens)
                 for name in (names if running is None else running)]
        found = self.agenda.whole(output(begun, grown))
        for name, computed, count in begun + grown:
            self.computed[name] = computed + count
        right = {(name, self.computed[name]) for name, _, _ in begun + grown
                 if self.computed[name] >= self.due[name]}
        for name, end in found:
            if name not in lags:
                self.due[name] = end // PAGE * PAGE + PAGE
            self.agenda.again(name, end)
        return set(found), right


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_what_looking_at_each_would_find(seed):
    chance, engine, made = random.Random(seed), Engine(), 0
    for _ in range(600):
        new = []
        if chance.random() < 0.05:
            made += 1
            new = [(f"r{made}", chance.choice([1, 7, 100]))]
        if engine.computed and chance.random() < 0.03:
            gone = chance.choice(list(engine.computed))
            del engine.computed[gone], engine.due[gone]
        if not engine.computed and not new:
            continue
        lags = set(list(engine.computed)[:1]) if chance.random() < 0.2 else ()
        found, right = engine.step(new, tokens=chance.choice([1] * 20 + [3]), lags=lags)
        assert found == right


def test_a_request_that_was_left_out_of_steps_is_found_again():
    engine = Engine()
    engine.step([("a", 20), ("b", 5), ("c", 5)])
    missed, seen = set(), set()
    for step in range(3 * LOOK_AT_ALL_EVERY):
        left_out = "b" if step % 2 else "a"
        found, right = engine.step(running=[n for n in engine.computed if n != left_out])
        seen |= found
        missed = {name for name, _ in right - found}
        assert not found - right
    assert {name for name, _ in seen} == {"a", "b", "c"}


def test_an_unknown_request_is_none():
    engine = Engine()
    assert engine.agenda.whole(output([], [("x", 500, 1)])) == []
