# SPDX-License-Identifier: Apache-2.0
"""Answers that came when their lookup had already told SGLang of nothing: pages that the daemon has
are computed anew, and nothing but this says so."""
from __future__ import annotations

import logging
import weakref
from typing import List

from .linker_question import Question

logger = logging.getLogger("sglang.kvsidecar")

WATCHED_MAX = 64
AGAIN = 10  # times as many until it is said again


class LateAnswers:
    """Scheduler's thread only."""

    def __init__(self) -> None:
        self.count = 0  # that would have been hits
        self._asked = 0
        self._told_at = 1
        # Whoever drops a question without an answer cancels it: nothing of it is kept here.
        self._watched: List["weakref.ReferenceType[Question]"] = []

    def asked(self, question: Question) -> None:
        """Its lookup is over; it is late where it hasn't finished."""
        self._asked += 1
        if not question.finished and len(self._watched) < WATCHED_MAX:
            self._watched.append(weakref.ref(question))

    def served(self, question: Question) -> None:
        """A later lookup of the same request has had the answer."""
        if self._watched:
            self._watched = [seen for seen in self._watched if seen() is not question]

    def look(self) -> None:
        """Counts those that have come since. Once a step of the scheduler; hardly ever there is
        anything to look at."""
        if not self._watched:
            return
        still = []
        for seen in self._watched:
            question = seen()
            if question is None:
                continue
            if not question.finished:
                still.append(seen)
            elif question.failure is None and question.lengths():
                self.count += 1
        self._watched = still
        if self.count >= self._told_at:
            self._told_at = self.count * AGAIN
            logger.warning(
                "kvsidecar: the daemon's answer came after lookup_us in %d of %d lookups: such "
                "requests are computed anew unless SGLang asks again; raise lookup_us and "
                "idle_lookup_us (100000 on a busy machine)", self.count, self._asked)
