# SPDX-License-Identifier: Apache-2.0
"""One rank's connection to the daemon: the client and its attachments, over reconnects, clears and
resets. Any thread may call; methods say where they wait."""
from __future__ import annotations

import dataclasses
import logging
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import Client, Namespace, Status
from ..plugin.connection import accepted, open_client
from .identity import Space
from .settings import Settings

logger = logging.getLogger("sglang.kvsidecar")

AT_ONCE_S = 1e-6  # of registering calls in a running engine: the client goes on by itself
# Ranks and data parallel replicas get one command to clear, and each one's clear ends the others'
# attachments. As short as that allows: another engine's clear may follow an update of weights that
# this one hasn't had.
CLEAR_TOGETHER_NS = 10_000_000_000
OPERATIONS_MAX = 65536


class Group(NamedTuple):
    """The ranks of one engine, for namespaces that nobody else may share."""

    id: bytes  # 16 bytes
    size: int
    rank: int


class Session:
    def __init__(self, settings: Settings, name: str, group: Optional[Group] = None,
                 version: str = "", **options: Any) -> None:
        """Waits at most connect_timeout for a daemon. Without one the client goes on trying by
        itself, said once; `client` is None where a daemon refuses. version: of the weights, as
        SGLang calls it; see follow(). options: of Client."""
        self._settings, self._group = settings, group
        self._lock = threading.Lock()
        self._spaces: Dict[str, Space] = {}
        self._namespaces: Dict[str, Namespace] = {}
        self._version = version  # that the namespaces are for
        self._next_version: Optional[str] = None  # of the engine, until it has cleared
        self._life = ""  # names namespaces of the engine's own; "": those that it shares
        self._cleared_ns: Optional[int] = None  # when this engine cleared last
        self._told: set[str] = set()
        self.client: Optional[Client] = open_client(
            settings.socket, name, settings.connect_timeout_s, logger,
            operations_max=OPERATIONS_MAX, **options)

    @property
    def connected(self) -> bool:
        """Never waits."""
        client = self.client
        return client is not None and client.connected

    def namespace(self, name: str) -> Optional[Namespace]:
        """The present attachment under that name; None: there is none. Never waits."""
        return self._namespaces.get(name)

    def say_once(self, what: str, level: int = logging.WARNING) -> None:
        """Into the log, the first time that it is said."""
        if what not in self._told:
            self._told.add(what)
            logger.log(level, "kvsidecar: %s", what)

    def attach(self, name: str, space: Space) -> bool:
        """Attaches, in place of an earlier attachment of that name. Waits at most attach_timeout;
        without a daemon it is attached when there is one. False: refused, said in the log."""
        with self._lock:
            self._spaces[name] = space
            return self._renew(name, self._settings.attach_timeout_s)

    def _renew(self, name: str, timeout_s: float) -> bool:
        old, client = self._namespaces.pop(name, None), self.client
        if old is not None and old.ok:
            old.detach()
        if client is None:
            return False
        if self._next_version is not None:  # clear() does it, for the weights of then
            return True
        space = self._spaces[name]
        fields = space.fields
        if self._version:
            fields = dataclasses.replace(fields, extra=tuple(fields.extra) + (
                ("weight version", self._version),))
        grouped: Dict[str, Any] = {}
        if self._life:
            fields = dataclasses.replace(fields, extra=tuple(fields.extra) + (
                ("sglang reset", self._life),))
        if self._group is not None:
            grouped = {"group": self._group.id, "group_size": self._group.size,
                       "rank": self._group.rank, "detach": bool(self._life)}
        made = client.attach(fields, coordinate=space.coordinate, timeout=timeout_s, **grouped)
        if not accepted(made, f"the namespace of pool {space.pool}", logger):
            return False
        self._namespaces[name] = made
        return True

    def stale(self, name: str) -> None:
        """An operation under that name ended STALE_NAMESPACE: somebody has cleared it. Right after
        this engine's own clear it was another rank or replica, and it is attached anew; else the
        engine stays out, since its weights may be those of before. Returns at once."""
        with self._lock:
            if self._cleared_ns is not None and \
                    time.monotonic_ns() - self._cleared_ns < CLEAR_TOGETHER_NS:
                if name in self._namespaces:
                    self._renew(name, AT_ONCE_S)
                return
        self.say_once("somebody else has cleared this model's pages, and this engine, which may "
                      "have the weights of before, neither loads nor stores any more; POST "
                      "/hicache/storage-backend/clear or restart it to go on")

    def follow(self, version: str) -> None:
        """What SGLang calls its weights now. If they have changed, no namespace is used until
        clear(): pages of the old weights may still be on their way. Returns at once."""
        if version == self._version or self._next_version == version:
            return
        with self._lock:
            self._next_version = version
            gone, self._namespaces = self._namespaces, {}
            for namespace in gone.values():
                namespace.detach()
        self.say_once(f"the weights have version {version} now: pages are neither loaded nor "
                      "stored until POST /hicache/storage-backend/clear says that none of the old "
                      "ones is in use any more")

    def clear(self, timeout_s: float) -> bool:
        """No page of before is found again: by anybody, or, where the weights have got another
        version since, by this engine, which joins those that have it. Waits at most timeout_s a
        namespace. False: a namespace couldn't be cleared, said in the log; then it isn't used any
        more."""
        with self._lock:
            if self._next_version is not None:
                self._version, self._next_version = self._next_version, None
                for name in self._spaces:
                    self._renew(name, timeout_s)
                return True
            self._cleared_ns = time.monotonic_ns()
            begun = [(name, self.client.clear(namespace, timeout=timeout_s))
                     for name, namespace in self._namespaces.items()
                     if self.client is not None and self._spaces[name].clears]
            moved_on, lost = set(), set()
            for name, op in begun:
                result = op.result()
                if result.ok:
                    moved_on.add(name)
                elif result.status != Status.STALE_NAMESPACE:
                    lost.add(name)
                    logger.error("kvsidecar: the pages of pool %s couldn't be cleared (%s %s); "
                                 "this engine doesn't use them any more. Clear again when the "
                                 "daemon answers.", self._spaces[name].pool, result.status.name,
                                 result.text)
            for name in self._spaces:
                if name in lost:
                    self._namespaces.pop(name).detach()
                elif name not in moved_on:
                    self._renew(name, timeout_s)
            return not lost

    def enter(self, life: str) -> None:
        """From now on namespaces of this engine's own, named by that text, the same on all of its
        ranks; "": those that it shares. Returns at once; operations end UNAVAILABLE until the
        daemon has answered."""
        with self._lock:
            self._life = life
            for name in self._spaces:
                self._renew(name, AT_ONCE_S)

    def spaces(self) -> List[Tuple[str, Space]]:
        return list(self._spaces.items())

    def close(self, wait_s: float) -> None:
        """Waits at most wait_s for gets that are being copied. Idempotent."""
        with self._lock:
            client, self.client = self.client, None
            self._namespaces = {}
        if client is not None:
            client.close(wait_s)
