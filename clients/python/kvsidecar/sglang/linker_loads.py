# SPDX-License-Identifier: Apache-2.0
"""Loads of the linker: queued by the scheduler, begun together before a forward, followed layer by
layer by a thread of their own.

From start() until finish() has returned the pages are the daemon's. A layer of a batch is told as
done when all its runs are in place, and all layers are resolved by the batch's deadline, failed
ones included: the forward waits on them without a limit. A batch has ended only when nothing can be
written any more: its answers came, what hadn't begun was revoked, or the daemon is dead. Whatever
goes wrong in between, a load counts as failed rather than as landed.
"""
from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import Op
from ..errors import Misuse
from .linker_batch import Batch, LoadFailed, Part, Queued, merged
from .linker_transfers import Pages

logger = logging.getLogger("sglang.kvsidecar")

STEP_S = 100e-6  # between two looks at a batch in flight
STEPS_FAST = 200  # after that many looks without news they become rarer
STEP_SLOW_S = 1e-3


class Loads:
    """step is called by the loads' own thread, all else by the scheduler's."""

    def __init__(self, counter: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """counter: a LayerWiseLoadCounter."""
        self._counter = counter
        self._clock = clock
        self._queued: Dict[str, Queued] = {}
        self._batches: Dict[int, Batch] = {}  # begun, until finish
        self._lost = False  # queued ones whose start has failed; nobody has heard of it yet
        self._running: List[Batch] = []  # of the thread
        self._handed: List[Batch] = []  # to the thread
        self._lock = threading.Lock()

    # The scheduler's thread.

    def queue(self, rid: str, pages: List[Pages], leases: Sequence[int]) -> None:
        self._queued[rid] = Queued(pages, tuple(leases))

    def is_queued(self, rid: str) -> bool:
        return rid in self._queued

    def cancel(self, rid: str) -> Optional[Queued]:
        """One that hasn't started; its leases are the caller's again."""
        return self._queued.pop(rid, None)

    def start(self, begin: Callable[[Pages], Optional[Op]], timeout_s: float) -> int:
        """Begins all that is queued; the batch's index, -1: nothing is queued. begin: makes the get
        of one pool's pages, None where there is nobody to ask."""
        if not self._queued:
            return -1
        queued, self._queued = self._queued, {}
        self._lost = True
        index = int(self._counter.update_producer())
        now = self._clock()
        batch = Batch(index, self._counter.num_layers, now, now + int(timeout_s * 1e9))
        self._batches[index] = batch
        self._lost = False
        try:
            for load in queued.values():
                batch.leases += load.leases
            for pages in merged(queued.values()):
                op = begin(pages)
                if op is None:
                    batch.failure = "no daemon"
                    break
                batch.parts.append(Part(pages, op))
        except Exception as error:
            batch.failure = f"it couldn't begin: {error}"
            logger.exception("kvsidecar: a load couldn't begin")
        with self._lock:
            self._handed.append(batch)
        return index

    def finish(self, index: int) -> List[Batch]:
        """Waits until nothing of the batch is written any more, nor of any that began before it
        and was forgotten. An index that wasn't given stands for all that have begun."""
        known = index in self._batches
        ended = [self._finished(one) for one in sorted(self._batches) if one <= index or not known]
        if self._lost:
            self._lost = False
            ended.append(Batch.lost())
        return ended

    def _finished(self, index: int) -> Batch:
        batch = self._batches.pop(index)
        landed = False
        try:
            landed = self._counter.finish(index)
        finally:
            batch.ended.wait()
        if not landed and batch.failure is None:
            batch.failure = "a layer failed"
        return batch

    def quiesce(self) -> List[Batch]:
        """Gives up everything and waits until nothing is written any more. What was queued or begun
        is returned, for its leases."""
        given_up = []
        for load in self._queued.values():
            batch = Batch(-1, 0, 0, 0)
            batch.leases += load.leases
            given_up.append(batch)
        self._queued.clear()
        for batch in list(self._batches.values()):
            batch.deadline_ns = 0
        self._lost = False
        return given_up + [self._finished(index) for index in sorted(self._batches)]

    # The loads' own thread.

    def step(self) -> Tuple[bool, bool]:
        """One look at all batches in flight: (whether some still are, whether there was news)."""
        with self._lock:
            self._running += self._handed
            self._handed = []
        news = False
        for batch in list(self._running):
            before = batch.landed
            try:
                self._follow(batch)
                at_rest = self._at_rest(batch)
                if at_rest:
                    self._resolve(batch)
            except Exception as error:
                if not batch.told:
                    logger.exception("kvsidecar: a load was lost")
                at_rest = self._lose(batch, f"it was lost: {error}")
            if at_rest:
                self._running.remove(batch)
                batch.ended.set()
            news = news or at_rest or batch.landed != before
        return bool(self._running), news

    def _follow(self, batch: Batch) -> None:
        if batch.told:
            return
        for part in batch.parts:
            if part.op.finished:
                batch.failure = batch.failure or part.failure
        if batch.failure is None and batch.landed < batch.layers:
            runs = [(part.runs(), part.pool.layer_ends) for part in batch.parts]
            while batch.landed < batch.layers and all(
                    done >= ends[batch.landed] for done, ends in runs):
                self._counter.complete(batch.index, batch.landed)
                batch.landed += 1
        if batch.failure is None and batch.landed < batch.layers and \
                self._clock() >= batch.deadline_ns:
            batch.failure, batch.late = "its deadline is past", True
        if batch.failure is not None:
            self._fail(batch, batch.failure)

    def _fail(self, batch: Batch, why: str) -> None:
        """Resolves what is left of the layers, and revokes what the daemon hasn't begun."""
        batch.failure, batch.told = batch.failure or why, True
        self._counter.fail(batch.index, LoadFailed(batch.failure))
        for part in batch.parts:
            if not part.op.finished:
                part.op.cancel()

    def _lose(self, batch: Batch, why: str) -> bool:
        """The same where looking at it has failed; whether it is at rest."""
        batch.failure, batch.told = batch.failure or why, True
        self._counter.fail(batch.index, LoadFailed(batch.failure))
        return all([_given_back(part.op) for part in batch.parts])

    @staticmethod
    def _at_rest(batch: Batch) -> bool:
        return all([part.op.finished for part in batch.parts])

    def _resolve(self, batch: Batch) -> None:
        """Of one at rest: whether it is whole is told once, by what its answers say."""
        for part in batch.parts:
            batch.failure = batch.failure or part.failure
        self._follow(batch)


def _given_back(op: Op) -> bool:
    """Gives it up; whether it writes nothing any more. Not knowing is no."""
    try:
        if not op.finished:
            op.cancel()
        return op.finished
    except Misuse:  # its client was closed, which waits for what is being copied
        return True
    except Exception:
        return False


class Follower:
    """The thread that steps the loads while there are some."""

    def __init__(self, loads: Loads) -> None:
        self._loads = loads
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="kvsidecar-loads")
        self._thread.start()

    def wake(self) -> None:
        self._wanted.set()

    def close(self, wait_s: float) -> None:
        """Waits at most wait_s for loads that haven't ended."""
        self._closing = True
        self._wanted.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._closing:
            self._wanted.wait()
            self._wanted.clear()
            idle = 0
            running = True
            while running:
                running, news = self._loads.step()
                idle = 0 if news else idle + 1
                if running:
                    time.sleep(STEP_S if idle < STEPS_FAST else STEP_SLOW_S)

