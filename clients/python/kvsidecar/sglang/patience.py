# SPDX-License-Identifier: Apache-2.0
"""How long a transfer may wait for a daemon that has just let one run into its deadline: SGLang
holds host memory for as long as each of them waits."""
from __future__ import annotations

import time
from typing import Callable

HURRIED_S = 0.1
HURRY_S = 5.0  # then one may wait in full again: the daemon may be slow, and not silent


class Patience:
    """Of one direction. Any thread."""

    def __init__(self, full_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._full_s, self._clock = full_s, clock
        self._hurried_until = float("-inf")

    def deadline_s(self) -> float:
        """Of the next transfer."""
        if self._clock() < self._hurried_until:
            return min(self._full_s, HURRIED_S)
        return self._full_s

    def ended(self, deadline_s: float, answered: bool) -> None:
        """A transfer with that deadline has ended; answered: the daemon has done any of it, or said
        why not."""
        if answered:
            self._hurried_until = float("-inf")
        elif deadline_s >= self._full_s:
            self._hurried_until = self._clock() + HURRY_S
