# SPDX-License-Identifier: Apache-2.0
"""Which prefixes of a request's tail may be loaded. Asked on the scheduler's thread, which looks
for an answer for a fixed time and then goes on; what comes later serves the request's next lookup.

Only pages that are in the daemon's host pool under a lease are offered; those of the store are read
into it meanwhile and offered at a later lookup. The lease holds what the longest prefix needs. A
shorter one ends in windows and states that may be let go: it is offered in the lookup that brought
the answer, for the load that follows at once, and not in later ones.
"""
from __future__ import annotations

import logging
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .. import Op, Status
from .linker_late import LateAnswers
from .linker_pools import DevicePool
from .linker_question import Prepared, Question, part_of
from .linker_transfers import Asked

logger = logging.getLogger("sglang.kvsidecar")

AGAIN_NS = 5_000_000  # for pages that were being read from the store
SILENT_NS = 20_000_000  # a question that old without an answer: nobody is waited for
AVOIDED_NS, AVOIDED_MAX = 5_000_000_000, 16_384
ASKS_MAX = 2048  # requests whose answers are remembered, up to 1 MiB each


class Promise(NamedTuple):
    """What a load relies on."""

    leases: Tuple[int, ...]
    epoch: int  # of the daemon that gave them; 0: nobody has


class Ask:
    """One request's."""

    __slots__ = ("question", "answered", "lengths", "batch")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.batch = 0  # that was being put together when it was asked about last
        self.answered = False
        self.lengths: List[int] = []  # that may still be told


class Lookups:
    """Scheduler's thread only."""

    def __init__(self, session: Any, pools: Dict[str, DevicePool], lease_s: float,
                 clock: Callable[[], int] = time.monotonic_ns) -> None:
        """session: its client and namespace()."""
        self._session, self._pools = session, pools
        self._lease_s = lease_s
        self._clock = clock
        self._asks: Dict[str, Ask] = {}  # the oldest question first
        self._batch = 0
        self._namespaces: Any = None  # that _prepared is for
        self._prepared: Dict[Tuple[Tuple[str, int], ...], Prepared] = {}
        self._unanswered: Optional[Question] = None
        self._releases: List[Op] = []
        self._avoided: Dict[bytes, int] = {}  # page -> until when it isn't offered
        self._complained = False
        self.late = LateAnswers()
        self.stale = False  # somebody else has cleared a namespace

    def lengths(self, rid: str, asked: Asked, until_ns: int, sleep_ns: int = 0) -> List[int]:
        """Restorable prefixes in pages, none where the answer isn't there by then, and after so
        much sleep."""
        now = self._clock()
        self._expire(now)
        ask = self._asks.get(rid)
        if ask is not None:
            first = part_of(ask.question, asked)
            if first is None or self._outlived(ask) or self._worth_another(ask, now):
                self._drop(rid)
                ask = None
            else:
                ask.batch = self._batch
                if ask.answered:
                    lengths = self._offered(ask, ask.lengths, first, asked.pages)
                    if lengths or not ask.lengths or \
                            first + asked.pages == ask.question.asked.pages:
                        return lengths
                    self._drop(rid)  # what is held can be restored to a later end only
                    ask = None
        if ask is None:
            question = self._ask(asked, now)
            if question is None:
                return []
            first, ask = 0, Ask(question)
            ask.batch = self._batch
            self._asks[rid] = ask
            self._spin(question, until_ns, sleep_ns)
            self.late.asked(question)
        return self._told(ask, first or 0, asked.pages)

    def _outlived(self, ask: Ask) -> bool:
        """Whether the daemon that holds the pages has gone."""
        client = self._session.client
        return client is None or not client.connected or client.epoch != ask.question.epoch

    @staticmethod
    def _worth_another(ask: Ask, now: int) -> bool:
        question = ask.question
        return ask.answered and now - question.sent_ns >= AGAIN_NS and (
            question.failure is not None or question.prefetching)

    def _ask(self, asked: Asked, now: int) -> Optional[Question]:
        client = self._session.client
        namespaces = {name: self._session.namespace(name) for name in self._pools}
        if client is None or None in namespaces.values():
            return None
        if self._namespaces != namespaces:  # other objects: another life
            self._namespaces, self._prepared = namespaces, {}
        windows = tuple(sorted(asked.trailing.items()))
        prepared = self._prepared.get(windows)
        if prepared is None:
            prepared = self._prepared[windows] = Prepared(
                client, namespaces, self._pools, asked.trailing, self._lease_s)
        question = Question(prepared, asked, now, self._lease_s, client.epoch)
        return None if question.whole.status == Status.UNAVAILABLE else question

    def _spin(self, question: Question, until_ns: int, sleep_ns: int) -> None:
        waiting = self._unanswered
        if waiting is not None and waiting.finished:
            waiting = self._unanswered = None
        if waiting is None or question.sent_ns - waiting.sent_ns < SILENT_NS:
            while not question.finished and self._clock() < until_ns:
                pass
            if sleep_ns:
                question.wait(sleep_ns)
        if self._unanswered is None and not question.finished:
            self._unanswered = question

    def _told(self, ask: Ask, first: int, pages: int) -> List[int]:
        question = ask.question
        if not question.finished:
            return []
        ask.answered = True
        self.late.served(question)
        failure = question.failure
        if failure is not None:
            self.stale = self.stale or failure[0] == Status.STALE_NAMESPACE
            if not self._complained:
                self._complained = True
                logger.warning("kvsidecar: a lookup ended %s %s (said once)", failure[0].name,
                               failure[1])
            return []
        lengths = question.lengths()
        longest = question.whole.longest
        ask.lengths = lengths if not question.beside else [n for n in lengths if n == longest]
        return self._offered(ask, lengths, first, pages)

    def _offered(self, ask: Ask, lengths: List[int], first: int, pages: int) -> List[int]:
        """The lengths of a part of the question that begins `first` pages later, up to a page that
        is avoided."""
        end = first + pages
        if self._avoided:
            keys, size, now = ask.question.asked.keys, ask.question.asked.key_bytes, self._clock()
            end = next((page for page in range(first, end) if self._avoided.get(
                keys[page * size:(page + 1) * size], 0) > now), end)
        return [length - first for length in lengths if first < length <= end]

    def avoid(self, keys: Sequence[bytes]) -> None:
        """Pages whose load has failed and would be offered again: for a while no request is sent to
        them."""
        now = self._clock()
        kept = {key: until for key, until in self._avoided.items() if until > now}
        kept.update(dict.fromkeys(keys, now + AVOIDED_NS))
        self._avoided = dict(list(kept.items())[-AVOIDED_MAX:])

    def taken(self, rid: str) -> Promise:
        """A load of the request is queued: the lease is the caller's, to be released."""
        ask = self._asks.pop(rid, None)
        if ask is None or not ask.answered or not ask.question.whole.lease:
            return Promise((), 0)
        return Promise((ask.question.whole.lease,), ask.question.epoch)

    def next_batch(self) -> None:
        """A batch is complete. Who wasn't asked about for it, and is waiting no more for what it
        was told, is computed or has gone: its lease would keep others from theirs."""
        for rid in [rid for rid, ask in self._asks.items() if ask.batch < self._batch]:
            self._drop(rid)
        self._batch += 1

    def _expire(self, now: int) -> None:
        """Half of a lease's time is left to the load that it is for."""
        while self._asks:
            rid, ask = next(iter(self._asks.items()))
            question = ask.question
            if len(self._asks) <= ASKS_MAX and \
                    now < question.sent_ns + (question.lease_end_ns - question.sent_ns) // 2:
                break
            self._drop(rid)
        if self._releases:
            self._releases = [op for op in self._releases if not op.finished]

    def _drop(self, rid: str) -> None:
        self._release(self._asks.pop(rid).question)

    def _release(self, question: Question) -> None:
        # One that isn't answered yet is cancelled when it goes; its lease ends by itself.
        if question.whole.finished and question.whole.lease:
            self.release((question.whole.lease,))

    def release(self, leases: Sequence[int]) -> None:
        client = self._session.client
        if client is not None:
            self._releases += [client.release(lease) for lease in leases]

    def drop_all(self) -> None:
        """No answer of before counts any more."""
        for rid in list(self._asks):
            self._drop(rid)
        self._unanswered = None
        self._avoided = {}
        self.stale = False
