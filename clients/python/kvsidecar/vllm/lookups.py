# SPDX-License-Identifier: Apache-2.0
"""What may be loaded for each request: asked once on arrival without a lease, and when the
scheduler asks, once more for what it can use, with a lease. Scheduler's thread only; nothing
waits."""
from __future__ import annotations

import logging
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from .. import Namespace, Op, Pool, PreparedLookup, Status
from .metrics import Recorder
from .pages import Geometry, Keys
from .question import Question
from .session import Session

logger = logging.getLogger("vllm.kvsidecar")

STALE_NS = 500_000_000  # a scout's answer that old isn't relied on
FORGIVEN_NS = 10_000_000_000  # a page whose load failed is tried again after that time
FORGOTTEN_MAX = 4096  # pages that are remembered as failed
ALONE_NS = 1_000_000  # of sleep for an engine's only request: steps until its answer cost more
UNFINISHED_MAX = 4096  # lookups past their deadline whose answer may still bring a lease


class Hit(NamedTuple):
    """What a request was promised."""

    local: int  # tokens in the engine's own blocks when it asked
    tokens: int  # restorable prefix
    leases: Tuple[int, ...]
    places: Dict[str, int]


class Ask:
    """One request's questions."""

    __slots__ = ("scout", "held", "first_ns", "counted", "told", "missed_ns", "missed_at",
                 "closed", "was_none", "local", "tokens", "leases", "holding")

    def __init__(self) -> None:
        self.scout: Optional[Question] = None
        self.held: Optional[Question] = None
        self.first_ns = 0  # of the scheduler's first ask about the question
        self.counted = False
        self.told = False  # an answer: the next question has time of its own
        self.missed_ns = self.missed_at = 0  # when, and behind how many tokens, nothing was there
        self.closed = False  # the answer is 0 from here on
        self.was_none = False
        self.local = 0  # what the scheduler was told last
        self.tokens = 0
        self.leases: List[int] = []
        self.holding = False  # a lease was asked for; counted until it is let go or taken


class Lookups:
    def __init__(self, session: Session, geometry: Geometry, recorder: Recorder) -> None:
        self._session = session
        self._settings = session.settings
        self._geometry = geometry
        self._recorder = recorder
        self._asks: Dict[str, Ask] = {}
        self._leases = 0
        self._releases: List[Op] = []
        self._late: List[Question] = []
        self._failed: Dict[bytes, int] = {}  # page -> until when it isn't asked for
        # The daemon let a deadline pass: until it answers again nobody waits for it.
        self._silent = False
        self._complained = False
        # Somebody else has begun a generation that this engine doesn't belong to.
        self.cleared_by_others = False
        self.clock = time.perf_counter_ns  # in which spun_ns is told
        self.spun_ns = 0  # so far
        self._namespaces: Dict[int, Namespace] = {}  # that _prepared is for
        self._prepared: Dict[float, Dict[int, PreparedLookup]] = {}  # per lease and page size

    def arrived(self, request_id: str, keys: Dict[int, Keys]) -> None:
        """A request has come: its prompt's keys per page size."""
        ask = self._asks[request_id] = Ask()
        ask.scout = self._question(keys, 0, 0.0)

    def _question(self, keys: Dict[int, Keys], local: int, lease_s: float) -> Optional[Question]:
        client, namespaces = self._session.client, self._session.namespaces
        if client is None or not namespaces:
            return None
        if self._namespaces is not namespaces:
            self._namespaces, self._prepared = namespaces, {}
        prepared = self._prepared.get(lease_s)
        if prepared is None:
            # The answer may come after the deadline of the ask: it ends the silence.
            timeout_s = max(1.0, self._settings.lookup_deadline_s)
            prepared = self._prepared[lease_s] = {
                size: PreparedLookup(
                    client, [Pool(namespaces[s.group], s.policy, s.trailing) for s in groups],
                    lease=lease_s, prefetch=lease_s == 0, timeout=timeout_s)
                for size, groups in self._geometry.by_size.items()}
        question = Question(prepared, keys, local, lease_s)
        return None if question.unavailable else question

    def matched(self, request_id: str, keys: Dict[int, Keys], local: int, limit: int,
                alone: bool = False) -> Optional[int]:
        """The restorable prefix in tokens, 0 if none is longer than `local`; None: ask again.
        alone: the engine has no other request, which a wait would delay."""
        now = time.monotonic_ns()
        ask = self._asks.get(request_id)
        if ask is None:
            ask = self._asks[request_id] = Ask()
        ask.first_ns = ask.first_ns or now
        if not ask.counted:
            ask.counted = True
            self._recorder.count("lookups")
        if ask.closed or limit <= local:
            return self._told(ask, local, 0)
        spin_ns = 0 if self._silent else int(self._settings.spin_s * 1e9)
        sleep_ns = ALONE_NS if alone and spin_ns else 0
        answer = self._answer(ask, keys, local, limit, now, spin_ns, sleep_ns)
        if answer is not None:
            return self._told(ask, local, answer)
        if self._silent or now - ask.first_ns >= self._settings.lookup_deadline_s * 1e9:
            self._recorder.count("lookup_late")
            self._silent = True
            self._give_up(ask)
            return self._told(ask, local, 0)
        self._recorder.count("lookup_nones")
        if not ask.was_none:
            ask.was_none = True
            self._recorder.count("lookup_requests_none")
        return None

    def may_wait(self, request_id: str) -> bool:
        """For a request that can't be looked up yet: whether its deadline is still to come."""
        ask = self._asks.setdefault(request_id, Ask())
        now = time.monotonic_ns()
        ask.first_ns, ask.told = ask.first_ns or now, True
        return now - ask.first_ns < self._settings.lookup_deadline_s * 1e9

    def _told(self, ask: Ask, local: int, tokens: int) -> int:
        ask.local, ask.tokens, ask.told = local, tokens, True
        if tokens == 0:
            self._let_go(ask)
        return tokens

    def _answer(self, ask: Ask, keys: Dict[int, Keys], local: int, limit: int,
                now: int, spin_ns: int, sleep_ns: int) -> Optional[int]:
        """None: not known yet."""
        held = ask.held
        if held is not None and held.finished and (
                held.local > local or (held.leased and now >= self._lease_limit(held))):
            self._let_go(ask)  # asked about less, or too old to be relied on
            held = None
        if held is None:
            scout = ask.scout
            if scout is not None and now - scout.sent_ns < STALE_NS:
                if not self._look(scout, now + spin_ns, sleep_ns):
                    return None
                if not self._noted(scout):
                    ask.closed = True
                    return 0
                if not scout.tokens(self._geometry, local, limit) and not scout.promising(local):
                    return 0
            if now - ask.missed_ns < STALE_NS and ask.missed_at <= local:
                return 0
            if ask.told:  # another question, with time of its own
                ask.first_ns, ask.told = now, False
            lease_s = self._settings.lease_s if self._leases < self._settings.leases_max else 0.0
            held = ask.held = self._question(keys, local, lease_s)
            if held is None:
                return 0
            ask.holding = held.leased
            self._leases += ask.holding
        if not self._look(held, now + spin_ns, sleep_ns):
            return None
        if not ask.leases:
            ask.leases = held.leases
        if not self._noted(held):
            ask.closed = True
            return 0
        tokens = held.tokens(self._geometry, local, limit)
        cut = self._without_failed(keys, tokens, local)
        if cut < tokens:
            cut = held.tokens(self._geometry, local, cut)
        if not cut:
            ask.missed_ns, ask.missed_at = now, held.local
        return cut

    def _look(self, question: Question, until_ns: int, sleep_ns: int) -> bool:
        """Whether it has finished; the first look may spin until then, and sleep so long."""
        if question.finished:
            return True
        if question.spun:
            return False
        began = self.clock()
        done = question.spin(until_ns) or (sleep_ns > 0 and question.wait(sleep_ns))
        self.spun_ns += self.clock() - began
        return done

    def _lease_limit(self, held: Question) -> int:
        # Half of its time is left to the load that it is for.
        return held.sent_ns + (held.lease_end_ns - held.sent_ns) // 2

    def _noted(self, question: Question) -> bool:
        """Of a finished question: whether the daemon has answered it."""
        if question.noted:
            return question.answered
        question.noted = True
        if question.answered:
            self._silent = False
            if question.pieces:
                last = question.pieces[-1].found
                self._recorder.observe("lookup_seconds",
                                       (last.finished_ns - last.submitted_ns) * 1e-9)
            return True
        self._recorder.count("lookup_failed")
        status, text = question.failure
        self.cleared_by_others |= status == Status.STALE_NAMESPACE
        if not self._complained:
            self._complained = True
            logger.warning("kvsidecar: a lookup ended %s %s (said once)", status.name, text)
        return False

    def _without_failed(self, keys: Dict[int, Keys], tokens: int, local: int) -> int:
        """The prefix before the first page whose load has failed lately."""
        if not self._failed or tokens <= local:
            return tokens
        now = time.monotonic_ns()
        while self._failed and self._failed[next(iter(self._failed))] <= now:
            del self._failed[next(iter(self._failed))]  # the oldest stand first
        for size, known in keys.items() if self._failed else ():
            for page in range(local // size, tokens // size):
                until = self._failed.get(known.one(page))
                if until is not None and now < until:
                    tokens = min(tokens, page * size // self._geometry.alignment *
                                 self._geometry.alignment)
                    break
        return tokens if tokens > local else 0

    def forget_pages(self, failed: List[bytes]) -> None:
        """Pages whose load failed: no request is sent to them again soon."""
        until = time.monotonic_ns() + FORGIVEN_NS
        for key in failed:
            self._failed.pop(key, None)
            self._failed[key] = until
        while len(self._failed) > FORGOTTEN_MAX:
            del self._failed[next(iter(self._failed))]

    def taken(self, request_id: str, external: int) -> Optional[Hit]:
        """The scheduler has given the request blocks, and `external` tokens are to be loaded. The
        leases are the caller's, to be released. None: nothing is to be loaded."""
        ask = self._asks.pop(request_id, None)
        if ask is None:
            return None
        if external <= 0 or ask.held is None or not ask.held.pieces:
            self._let_go(ask)
            return None
        tokens = min(ask.local + external, ask.tokens)
        hit = Hit(ask.local, tokens, tuple(ask.leases), ask.held.places(ask.local, tokens))
        for place, count in hit.places.items():
            if count:
                self._recorder.count(f"hit_tokens_{place}", count)
        self._leases -= ask.holding
        return hit

    def known_present(self, request_id: str, size: int) -> Optional[int]:
        """Pages of that size from the prompt's beginning that the daemon had when the request came;
        None if it didn't say."""
        ask = self._asks.get(request_id)
        scout = ask.scout if ask else None
        if scout is None or not scout.finished or not scout.answered:
            return None
        return scout.present(size)

    def close_request(self, request_id: str) -> None:
        """From here on the request is told 0: its load has failed."""
        ask = self._asks.setdefault(request_id, Ask())
        self._give_up(ask)

    def dropped(self, request_id: str) -> None:
        """The request has ended, whatever became of it."""
        ask = self._asks.pop(request_id, None)
        if ask is not None:
            self._give_up(ask)

    def drop_all(self) -> None:
        """No answer of before counts any more."""
        for ask in self._asks.values():
            self._give_up(ask)
            ask.closed = False
            ask.told = True
            ask.scout, ask.missed_ns = None, 0
        self._failed.clear()
        self.cleared_by_others = False

    def _give_up(self, ask: Ask) -> None:
        ask.closed = True
        # An answer that is still to come may bring a lease, and ends the silence.
        if ask.held is not None and not ask.held.finished and len(self._late) < UNFINISHED_MAX:
            self._late.append(ask.held)
            ask.held = None
        if ask.scout is not None and not ask.scout.finished and len(self._late) < UNFINISHED_MAX:
            self._late.append(ask.scout)
            ask.scout = None
        self._let_go(ask)

    def _let_go(self, ask: Ask) -> None:
        """Releases what the request holds in the daemon."""
        if ask.held is not None and not ask.leases and ask.held.finished:
            ask.leases = ask.held.leases
        if ask.leases:
            self.release(tuple(ask.leases))
        self._leases -= ask.holding
        ask.leases, ask.held, ask.holding = [], None, False

    def release(self, leases: Tuple[int, ...]) -> None:
        client = self._session.client
        if client is not None:
            self._releases += [client.release(lease) for lease in leases]

    @property
    def unsettled(self) -> bool:
        """Whether step() has anything to do."""
        return bool(self._releases or self._late)

    def step(self) -> None:
        """Once a step: takes in what has been answered late."""
        if self._releases:
            self._releases = [op for op in self._releases if not op.finished]
        if self._late:
            waiting = []
            for question in self._late:
                if not question.finished:
                    waiting.append(question)
                    continue
                self._silent = self._silent and not question.answered
                self.release(tuple(question.leases))
            self._late = waiting

