# SPDX-License-Identifier: Apache-2.0
"""Which running requests a step has to look at. In steps that compute one token of each request
nothing has to be counted to know when the next page of each is whole. Pure."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

NEVER = 1 << 62
LOOK_AT_ALL_EVERY = 64  # steps: how far ahead is planned


class Agenda:
    """Scheduler's thread only."""

    def __init__(self, due: Dict[str, int]) -> None:
        """due: per request, computed tokens with which its next page is whole. Read only."""
        self._due = due
        self._step = 0
        self._until = 0  # the step at which all are looked at again
        self._running: List[str] = []  # of the step before
        # Per step the requests whose page is whole then; None while steps aren't plain.
        self._at: Optional[Dict[int, List[str]]] = None

    def whole(self, output: Any) -> List[Tuple[str, int]]:
        """(request, computed tokens at this step's end) of those with a page that is whole then."""
        self._step += 1
        scheduled, due = output.num_scheduled_tokens, self._due
        cached = output.scheduled_cached_reqs
        plain = len(scheduled) == output.total_num_scheduled_tokens and \
            not output.scheduled_new_reqs and not cached.resumed_req_ids and \
            cached.req_ids == self._running
        if not plain:
            self._running = list(cached.req_ids)
            self._at = None
        elif self._at is not None and self._step < self._until:
            names = self._at.pop(self._step, None)
            return self._looked_up(names, output) if names else []
        found = [(name, computed + scheduled[name])
                 for name, computed in zip(cached.req_ids, cached.num_computed_tokens)
                 if computed + scheduled[name] >= due.get(name, NEVER)]
        if plain:
            self._plan(cached)
        else:
            found += [(new.req_id, end) for new in output.scheduled_new_reqs
                      if (end := new.num_computed_tokens + scheduled[new.req_id]) >=
                      due.get(new.req_id, NEVER)]
        return found

    def _plan(self, cached: Any) -> None:
        """One token a step from here on."""
        self._at, self._until = {}, self._step + LOOK_AT_ALL_EVERY
        for name, computed in zip(cached.req_ids, cached.num_computed_tokens):
            self.again(name, computed + 1)

    def _looked_up(self, names: List[str], output: Any) -> List[Tuple[str, int]]:
        cached, wanted = output.scheduled_cached_reqs, set(names)
        return [(name, computed + 1)
                for name, computed in zip(cached.req_ids, cached.num_computed_tokens)
                if name in wanted and computed + 1 >= self._due.get(name, NEVER)]

    def again(self, name: str, end: int) -> None:
        """After a request was looked at with that many tokens: when next. A page whose hash isn't
        known yet is looked for in each step."""
        if self._at is not None:
            ahead = max(self._due.get(name, NEVER) - end, 1)
            if ahead < LOOK_AT_ALL_EVERY:
                self._at.setdefault(self._step + ahead, []).append(name)
