# SPDX-License-Identifier: Apache-2.0
"""Loads in flight of one worker. From start() until a load is told as ended its blocks are the
daemon's; it has ended only when nothing can be written any more: its answer came, what hadn't begun
was revoked, or the daemon is dead. Worker's thread only; nothing waits."""
from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .. import Fence, Layout, Op, Status
from .metadata import Load
from .metrics import Recorder
from .pages import Page, Pages
from .session import Session


class Job:
    """One request's load."""

    __slots__ = ("load", "ops", "failed", "unwanted", "life", "began_ns")

    def __init__(self, load: Load, life: int) -> None:
        self.load = load
        self.ops: List[Tuple[Op, Pages]] = []
        self.failed: List[Pages] = []  # that couldn't even begin
        self.unwanted = False  # the request has ended
        self.life = life
        self.began_ns = time.monotonic_ns()


class Ended(NamedTuple):
    """What one step has to tell."""

    requests: Set[str]
    failed: Dict[str, List[Page]]  # of those the requests that miss pages, and which
    bad_blocks: Set[int]


class Loads:
    def __init__(self, session: Session, layouts: Dict[int, Layout], recorder: Recorder) -> None:
        self._session = session
        self._layouts = layouts
        self._recorder = recorder
        self._jobs: Dict[str, Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, loads: Sequence[Load], after: Tuple[Optional[Fence], int]) -> None:
        """Begins them. after: fence and value that the engine's own work on the blocks signals."""
        client, namespaces = self._session.client, self._session.namespaces
        for load in loads:
            job = self._jobs[load.request_id] = Job(load, self._session.life)
            self._recorder.count("loads")
            for pages in load.pages:
                layout = self._layouts.get(pages.group)
                if client is None or layout is None or pages.group not in namespaces:
                    job.failed.append(pages)
                    continue
                job.ops.append((client.get(
                    namespaces[pages.group], pages.keys, layout, pages.blocks,
                    key_bytes=pages.key_bytes, fence=after[0], fence_value=after[1],
                    lease=load.leases[0] if load.leases else 0,
                    timeout=self._session.settings.load_timeout_s), pages))

    def unwant(self, request_ids: Set[str]) -> None:
        """Requests that have ended. What the daemon is writing at this moment goes on being its."""
        for request_id in request_ids & self._jobs.keys():
            job = self._jobs[request_id]
            job.unwanted = True
            self._cancel(job)

    def outlived(self, life: int) -> None:
        """Loads of an earlier life bring what nobody wants any more: they fail."""
        for job in self._jobs.values():
            if job.life != life:
                self._cancel(job)

    def give_up_all(self, seconds: float) -> None:
        """Before the blocks' memory goes. Waits at most that long for what is being copied."""
        for job in self._jobs.values():
            self._cancel(job)
        client = self._session.client
        if client is not None and self._jobs:
            client.wait_all([op for job in self._jobs.values() for op, _ in job.ops],
                            timeout=seconds)

    @staticmethod
    def _cancel(job: Job) -> None:
        for op, _ in job.ops:
            if not op.finished:
                op.cancel()

    def ended(self) -> Ended:
        """Loads that have ended since, each told once."""
        ended = Ended(set(), {}, set())
        for request_id, job in list(self._jobs.items()):
            if all([op.finished for op, _ in job.ops]):
                del self._jobs[request_id]
                self._settle(job, ended)
        return ended

    def _settle(self, job: Job, ended: Ended) -> None:
        request_id = job.load.request_id
        ended.requests.add(request_id)
        stale = job.life != self._session.life
        missed: List[Page] = []
        for op, pages in job.ops:
            items = self._counted(op, pages)
            for index, status in enumerate(items):
                if status != Status.OK or stale:
                    ended.bad_blocks.add(pages.blocks[index])
                if status != Status.OK:
                    missed.append(_page(pages, index))
        if job.unwanted or stale:
            missed = []  # given up here: that says nothing about the pages
        for pages in job.failed:
            self._recorder.count_load(Status.UNAVAILABLE, len(pages.blocks))
            ended.bad_blocks.update(pages.blocks)
            missed += [_page(pages, index) for index in range(len(pages.blocks))]
        self._recorder.observe("load_seconds", (time.monotonic_ns() - job.began_ns) * 1e-9)
        if (missed or stale) and not job.unwanted:
            self._recorder.count("failed_loads")
            ended.failed[request_id] = missed

    def _counted(self, op: Op, pages: Pages) -> bytes:
        """A status a page."""
        result = op.result()
        items = result._items
        if len(items) != len(pages.blocks):
            items = bytes((result.status or Status.INTERNAL,)) * len(pages.blocks)
        for status in set(items):
            self._recorder.count_load(status, items.count(status))
        good = items.count(Status.OK)
        layout = self._layouts.get(pages.group)  # none in sleep
        if good and layout is not None:
            self._recorder.count("load_bytes", good * layout.part_bytes)
        return items


def _page(pages: Pages, index: int) -> Page:
    return pages.group, pages.keys[index * pages.key_bytes:(index + 1) * pages.key_bytes]
