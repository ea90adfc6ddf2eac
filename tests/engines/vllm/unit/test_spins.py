# SPDX-License-Identifier: Apache-2.0
"""Goal: the scheduler looks for an answer as long as that delays nobody, and no longer.

Method: a daemon that stands still, a clock that moves with each look at it.
"""
import time
import types

import pytest

from kvsidecar.vllm import lookups, question
from kvsidecar.vllm.lookups import ALONE_NS
from rig import PAGE
from scene import daemon, filled, make_rig, prompt, seed, settle  # noqa: F401

LOOK_NS = 1_000


@pytest.fixture
def clock(monkeypatch):
    """Nanoseconds of all that it was asked for, in .now; it moves by a microsecond at each look."""
    told = types.SimpleNamespace(now=time.monotonic_ns())

    def look():
        told.now += LOOK_NS
        return told.now

    for module in (lookups, question):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(
            monotonic_ns=look, perf_counter_ns=look))
    return told


def spent_by_an_ask(rig, clock, request_id):
    asked, before = len(rig.asked), clock.now
    rig.step()
    assert rig.asked[asked:].count((request_id, None)) == 1
    return clock.now - before


def test_a_request_with_company_is_looked_for_as_long_as_spin_us_says(make_rig, daemon, clock):
    rig = make_rig({"spin_us": 100})
    daemon.pause()
    rig.add("0", prompt(0, PAGE + 1))
    rig.add("1", prompt(1, PAGE + 1))
    assert 2 * 100_000 <= spent_by_an_ask(rig, clock, "0") < 2 * 100_000 + 100 * LOOK_NS
    daemon.resume()
    rig.run()


def slept(rig, request_id, monkeypatch):
    """Nanoseconds for which each of its asks in one step sleeps."""
    told, wait = [], question.Question.wait

    def noted(self, nanoseconds):
        told.append(nanoseconds)
        return wait(self, nanoseconds)

    with monkeypatch.context() as patched:
        patched.setattr(question.Question, "wait", noted)
        rig.step()
    assert rig.asked[-1] == (request_id, None)
    return told


def test_for_a_request_without_company_the_scheduler_sleeps(make_rig, daemon, monkeypatch):
    rig = make_rig({"spin_us": 100})
    daemon.pause()
    rig.add("0", prompt(0, PAGE + 1))
    assert slept(rig, "0", monkeypatch) == [ALONE_NS]
    assert slept(rig, "0", monkeypatch) == []  # once
    rig.add("1", prompt(1, PAGE + 1))
    assert slept(rig, "1", monkeypatch) == []
    daemon.resume()
    rig.run()


def test_a_sleep_ends_with_the_answer(make_rig, filled, monkeypatch):
    one, = filled([prompt(0, PAGE + 1)])
    rig = make_rig({"spin_us": 100})
    monkeypatch.setattr(lookups, "ALONE_NS", 60_000_000_000)
    monkeypatch.setattr(question.Question, "spin", lambda self, until: False)
    rig.add("0", one)
    rig.run()
    assert [tokens for _, tokens in rig.asked][0] == PAGE


def test_a_daemon_that_let_a_deadline_pass_is_not_looked_for(make_rig, daemon, clock):
    rig = make_rig({"spin_us": 100, "lookup_deadline_ms": 1000})
    daemon.pause()
    rig.add("0", prompt(0, PAGE + 1))
    rig.step()
    clock.now += 1_000_000_000
    rig.run()
    rig.add("1", prompt(1, PAGE + 1))
    before = clock.now
    rig.run()
    assert clock.now - before < 100_000
    daemon.resume()
