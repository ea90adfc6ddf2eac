# SPDX-License-Identifier: Apache-2.0
"""How long a lookup may take: little while the engine computes, more while nobody waits for it."""
from __future__ import annotations

import time
from typing import Callable

IDLE_STEP_NS = 1_000_000  # a step of SGLang's scheduler that takes less computes nothing


class Pace:
    """Scheduler's thread only."""

    def __init__(self, lookup_s: float, idle_lookup_s: float,
                 clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._lookup_ns = int(lookup_s * 1e9)
        self._idle_lookup_ns = max(self._lookup_ns, int(idle_lookup_s * 1e9))
        self._clock = clock
        self._step_ns = 0  # when the present step began; 0: none has
        self._was_short = False  # the step before it computed nothing

    def step(self) -> None:
        """The scheduler begins a step: it asks for ended offloads once in each."""
        now = self._clock()
        self._was_short = 0 < now - self._step_ns < IDLE_STEP_NS
        self._step_ns = now

    def lookup_until(self) -> int:
        """When a lookup that begins now has to be told."""
        now = self._clock()
        idle = self._was_short and now - self._step_ns < IDLE_STEP_NS
        return now + (self._idle_lookup_ns if idle else self._lookup_ns)
