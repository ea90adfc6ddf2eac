# SPDX-License-Identifier: Apache-2.0
"""Which stores are complete, for KV events: a page is announced when all ranks have stored it."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from .events import Events
from .identity import GroupSpace
from .metadata import StepReport, joined

PENDING_MAX = 4096  # an engine that stands still hears nothing; the oldest are forgotten


class Pending(NamedTuple):
    request: Any
    group: int
    pages: Sequence[int]  # ordinals within the prompt
    reports: int  # workers that have told
    stored: bytes  # by all of them, 1 a page


class Tickets:
    """Scheduler's thread only."""

    def __init__(self, spaces: Sequence[GroupSpace], events: Events) -> None:
        self._events = events
        self._workers = {space.group: len(space.fields.parts) for space in spaces}
        self._pending: Dict[int, Pending] = {}
        self._last = 0

    def issue(self, request: Any, group: int, pages: Sequence[int]) -> int:
        """For a store of that request; 0 where nobody wants to know."""
        if not self._events.active:
            return 0
        self._last += 1
        self._pending[self._last] = Pending(request, group, pages, 0, b"\1" * len(pages))
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        return self._last

    def forget(self) -> None:
        """After a reset: what is still being stored is of before, and not announced."""
        self._pending.clear()

    def take(self, report: StepReport) -> None:
        for ticket, flags in report.stored.items():
            pending = self._pending.pop(ticket, None)
            if pending is None or len(flags) != len(pending.stored):
                continue
            reports = pending.reports + report.reports[ticket]
            stored = joined(pending.stored, flags)
            if reports < self._workers[pending.group]:
                self._pending[ticket] = pending._replace(reports=reports, stored=stored)
                continue
            pages: List[int] = [page for page, flag in zip(pending.pages, stored) if flag]
            if pages:
                self._events.stored(pending.request, pending.group, pages)
