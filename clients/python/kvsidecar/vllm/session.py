# SPDX-License-Identifier: Apache-2.0
"""One process's connection to the daemon: the client, and the namespaces of the engine's present
life. Scheduler and workers hold one each; together they are a group of the daemon's."""
from __future__ import annotations

import dataclasses
import logging
from typing import Any, Dict, List, Optional, Sequence

from .. import COORDINATOR, Client, Namespace
from ..identity import Coordinate
from ..plugin.connection import accepted, group_uuid, open_client
from .identity import GroupSpace
from .metrics import Recorder
from .settings import Settings

logger = logging.getLogger("vllm.kvsidecar")

AT_ONCE_S = 1e-6  # of registering calls in a running engine: the client goes on by itself
OPERATIONS_MAX = 65536


class Session:
    """Any thread may call, one at a time. No method waits for the daemon but the constructor and
    the first attach()."""

    def __init__(self, settings: Settings, name: str, nonce: str = "") -> None:
        """Opens the client. Without a daemon it goes on trying by itself, said once. A daemon that
        refuses leaves the session without a client for good: the engine serves without it.
        nonce: see use_nonce()."""
        self.settings = settings
        self.nonce = nonce
        self.namespaces: Dict[int, Namespace] = {}  # by group
        self._next: Dict[int, Namespace] = {}  # of the engine's next life
        self.life = 0
        self._epoch = 0  # of the daemon when it was last looked at
        self.detached = 0  # which namespaces of the engine's own; 0: those that it shares
        self.cleared = 0  # which generation of them, counted by this engine
        self._spaces: List[GroupSpace] = []
        self._coordinates: Optional[Dict[int, Coordinate]] = None
        self._group_size = 0
        self._rank = COORDINATOR
        self.client: Optional[Client] = open_client(
            settings.socket, name, settings.connect_timeout_s, logger, spin=0,
            operations_max=OPERATIONS_MAX)

    @property
    def connected(self) -> bool:
        return self.client is not None and self.client.connected

    def count_connection(self, recorder: Recorder) -> None:
        """Once a step, for the metrics."""
        connected = self.connected
        recorder.gauge("connected", float(connected))
        if connected and self.client is not None and self.client.epoch != self._epoch:
            self._epoch = self.client.epoch
            recorder.count("connects")

    def attach(self, spaces: Sequence[GroupSpace], group_size: int, rank: int = COORDINATOR,
               coordinates: Optional[Dict[int, Coordinate]] = None,
               timeout_s: Optional[float] = None) -> None:
        """Attaches to the namespaces of all groups that are stored. coordinates: which part of each
        group this process holds; none for the scheduler. Refused ones are said in the log, and then
        none is used."""
        self._spaces, self._group_size, self._rank = list(spaces), group_size, rank
        self._coordinates = coordinates
        if timeout_s is None:
            timeout_s = self.settings.attach_timeout_s
        _forget(self._next)  # of the groups as they were known before
        self._next = {}
        self._use(self._made(self.detached, timeout_s))

    def _made(self, detached: int, timeout_s: float) -> Dict[int, Namespace]:
        """Attachments to all groups' namespaces, shared ones (detached 0) or this engine's own;
        empty where one was refused."""
        made: Dict[int, Namespace] = {}
        for space in self._spaces if self.client is not None else ():
            fields = space.fields
            if detached:
                fields = dataclasses.replace(fields, extra=tuple(fields.extra) + (
                    ("vllm reset", f"{self.nonce} {detached}"),))
            namespace = self.client.attach(
                fields, group=group_uuid(self.settings.own_id), group_size=self._group_size,
                rank=self._rank, coordinate=self._coordinates[space.group]
                if self._coordinates is not None else None, detach=detached > 0, timeout=timeout_s)
            if not accepted(namespace, f"the namespace of KV cache group {space.group}", logger):
                return {}
            made[space.group] = namespace
        return made

    def _use(self, made: Dict[int, Namespace]) -> None:
        _forget(self.namespaces)
        self.namespaces = made
        self._prepare()

    def _prepare(self) -> None:
        """After a reset the next ones are needed at once: they are attached to beforehand."""
        if self.namespaces and self.nonce and not self._next and \
                self.settings.on_reset == "detach":
            self._next = self._made(self.detached + 1, AT_ONCE_S)

    def use_nonce(self, nonce: str) -> None:
        """What tells the namespaces that this engine has for itself from those of every other life
        of an engine, also of one with the same id and other weights. Returns at once."""
        if nonce != self.nonce:
            _forget(self._next)
            self.nonce, self._next = nonce, {}
            self._prepare()

    def enter(self, life: int, detached: int, cleared: int) -> None:
        """A later life of the engine: other namespaces, or another generation of the same (cleared:
        how many there were). Returns at once; where the daemon has to be asked first, operations
        end UNAVAILABLE meanwhile."""
        self.life = life
        if (detached, cleared) == (self.detached, self.cleared):
            return
        ready: Dict[int, Namespace] = {}
        if detached != self.detached:
            ready, self._next = self._next, {}
            if detached != self.detached + 1:
                _forget(ready)
                ready = {}
        self.detached, self.cleared = detached, cleared
        if self._spaces:
            self._use(ready or self._made(detached, AT_ONCE_S))

    def keep(self, life: int, cleared: int) -> None:
        """A later life in the same namespaces, whose generation this session has begun itself."""
        self.life, self.cleared = life, cleared

    def close(self, wait_s: float) -> None:
        """Idempotent. Waits at most wait_s for loads that are being copied."""
        client, self.client = self.client, None
        self.namespaces = {}
        if client is not None:
            client.close(wait_s)


def _forget(namespaces: Dict[int, Namespace]) -> None:
    """They aren't attached again after a reconnect."""
    for namespace in namespaces.values():
        namespace.detach()
