# SPDX-License-Identifier: Apache-2.0
"""How long a lookup may take: little while the engine computes, more while nobody waits for it.

SGLang asks about a request when it is about to be computed: a miss is final, it isn't asked about
again unless it can't be admitted yet. So "nothing" can't be told in the hope of a later lookup, and
an answer that comes too late is a prefix that is computed again.
"""
from __future__ import annotations

import time
from typing import Callable, Tuple

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

    def lookup_until(self) -> Tuple[int, int]:
        """Of a lookup that begins now: (until when it may look for the answer, nanoseconds that it
        may sleep after that)."""
        now = self._clock()
        idle = self._was_short and now - self._step_ns < IDLE_STEP_NS
        until = now + self._lookup_ns
        return until, self._idle_lookup_ns - self._lookup_ns if idle else 0
