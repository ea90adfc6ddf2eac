# SPDX-License-Identifier: Apache-2.0
"""Goal: a lookup takes the time that it may, and more only in an engine that computes nothing.

Method: steps and lookups at moments of the test's choosing.
"""
import pytest

from kvsidecar.sglang.hicache_settings import HiCacheSettings
from kvsidecar.sglang.linker_pace import IDLE_STEP_NS, Pace
from kvsidecar.sglang.linker_settings import LinkerSettings

BUSY_NS, IDLE_NS = 200_000, 5_000_000


class Scene:
    def __init__(self, busy_ns=BUSY_NS, idle_ns=IDLE_NS):
        self.now = 10**9
        self.pace = Pace(busy_ns * 1e-9, idle_ns * 1e-9, clock=lambda: self.now)

    def step(self, after_ns):
        self.now += after_ns
        self.pace.step()

    def may_take(self, after_ns=0):
        """Nanoseconds with its eyes open, and asleep after that."""
        self.now += after_ns
        until, sleep_ns = self.pace.lookup_until()
        return until - self.now, sleep_ns


@pytest.fixture
def scene():
    return Scene()


def test_an_engine_that_computes_waits_little(scene):
    for _ in range(3):
        scene.step(IDLE_STEP_NS)
        assert scene.may_take() == (BUSY_NS, 0)


def test_an_engine_that_computes_nothing_waits_longer(scene):
    scene.step(IDLE_STEP_NS)
    scene.step(IDLE_STEP_NS - 1)
    assert scene.may_take(10_000) == (BUSY_NS, IDLE_NS - BUSY_NS)


def test_only_the_first_lookups_of_a_step_wait_longer(scene):
    scene.step(IDLE_STEP_NS)
    scene.step(1)
    assert scene.may_take(IDLE_STEP_NS) == (BUSY_NS, 0)


def test_an_engine_that_has_made_no_step_waits_little(scene):
    assert scene.may_take() == (BUSY_NS, 0)
    scene.step(1)
    assert scene.may_take() == (BUSY_NS, 0)


def test_idleness_never_shortens_a_lookup():
    scene = Scene(idle_ns=0)
    scene.step(1)
    scene.step(1)
    assert scene.may_take() == (BUSY_NS, 0)


def test_an_idle_engine_waits_as_long_as_the_other_doors_queries_may():
    assert LinkerSettings.read(None).idle_lookup_s == HiCacheSettings.read(None).lookup_deadline_s
