# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's side tells the workers once a step, and what they answer. Small and flat:
both are pickled for every worker and every step."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Tuple

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorMetadata, KVConnectorWorkerMetadata)

from .identity import GroupSpace
from .pages import Page, Pages


class Load(NamedTuple):
    """All that one request waits for. The blocks are the daemon's from start_load_kv until the step
    that reports the request in finished_recving."""

    request_id: str
    leases: Tuple[int, ...]  # that hold the pages; any of them is named by a get
    pages: Tuple[Pages, ...]


class Store(NamedTuple):
    """Pages that are whole after this step's forward. The blocks may not be written before the put
    has ended, was revoked or abandoned."""

    ticket: int  # 0: nobody waits to hear what became of it
    pages: Pages
    position: int  # of the first page in its prompt, a hint
    prompt_pages: int


@dataclass
class StepMetadata(KVConnectorMetadata):
    """One step."""

    nonce: str = ""  # of this engine's process; see Session.use_nonce
    life: int = 0  # grows with every reset: loads of an earlier one have failed
    detached: int = 0  # which namespaces of the engine's own are in use; 0: those that it shares
    cleared: int = 0  # which of their generations, counted by this engine
    touched: List[int] = field(default_factory=list)  # blocks that get other content from here on
    loads: List[Load] = field(default_factory=list)
    stores: List[Store] = field(default_factory=list)


@dataclass
class StepReport(KVConnectorWorkerMetadata):
    """What one worker, or several together, have to tell of one step."""

    # Of stores with a ticket: for each page 1 where it is stored. A ticket is reported by every
    # worker that stores, each once; `reports` counts them.
    stored: Dict[int, bytes] = field(default_factory=dict)
    reports: Dict[int, int] = field(default_factory=dict)
    # Requests whose load failed, with the pages that did.
    failed: Dict[str, List[Page]] = field(default_factory=dict)
    # Told once after a start: the namespaces as the workers know them.
    spaces: Optional[Tuple[GroupSpace, ...]] = None
    refused: bool = False  # told with them: the daemon serves none of this worker's memory
    # The engine's life in which stores found that somebody else has cleared the namespace.
    stale_in: Optional[int] = None

    def empty(self) -> bool:
        return not (self.stored or self.failed or self.spaces) and self.stale_in is None

    def aggregate(self, other: KVConnectorWorkerMetadata) -> "StepReport":
        """Joins the reports of two workers. A page is stored when all parts are."""
        assert isinstance(other, StepReport)
        for ticket, flags in other.stored.items():
            mine = self.stored.get(ticket)
            self.stored[ticket] = flags if mine is None else joined(mine, flags)
            self.reports[ticket] = self.reports.get(ticket, 0) + other.reports[ticket]
        for request_id, pages in other.failed.items():
            self.failed.setdefault(request_id, []).extend(pages)
        self.spaces = self.spaces or other.spaces
        self.refused |= other.refused
        if self.stale_in is None:
            self.stale_in = other.stale_in
        return self


def joined(one: bytes, other: bytes) -> bytes:
    """Set where both are."""
    size = len(one)
    return (int.from_bytes(one, "big") & int.from_bytes(other, "big")).to_bytes(size, "big")
