# SPDX-License-Identifier: Apache-2.0
"""One rank's connection to the daemon: the client and its attachments, over reconnects, clears and
resets. Any thread may call; methods say where they wait."""
from __future__ import annotations

import dataclasses
import functools
import logging
import threading
import time
from typing import (Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple,
                    TypeVar)

from .. import Client, Namespace, Status
from .._core import Handle
from ..plugin.connection import accepted, open_client
from .first_contact import FirstContact
from .identity import Space
from .patience import Patience
from .settings import Settings

logger = logging.getLogger("sglang.kvsidecar")

AT_ONCE_S = 1e-6  # of registering calls in a running engine: the client goes on by itself
# Ranks and data parallel replicas get one command to clear, and each one's clear ends the others'
# attachments. As short as that allows: another engine's clear may follow an update of weights that
# this one hasn't had.
CLEAR_TOGETHER_NS = 10_000_000_000
OPERATIONS_MAX = 65536
# Of operations: what comes and goes with the daemon's load and life, and is no news.
PASSING = (Status.OK, Status.TIMEOUT, Status.REVOKED, Status.BUSY, Status.UNAVAILABLE,
           Status.DRAINING)
TOLD_MAX = 1000  # different sentences of the log; some name whatever SGLang has handed over

Made = TypeVar("Made", bound=Handle)


class Group(NamedTuple):
    """The ranks of one engine, for namespaces that nobody else may share."""

    id: bytes  # 16 bytes
    size: int
    rank: int


class Session:
    def __init__(self, settings: Settings, name: str, group: Optional[Group] = None,
                 version: str = "", remedy: str = "", **options: Any) -> None:
        """Waits at most connect_timeout for a daemon. Without one the client goes on trying by
        itself, said once; `client` is None where a daemon refuses. version: of the weights, as
        SGLang calls it; see follow(). remedy: what makes SGLang call clear(). options: of
        Client."""
        self._settings, self._group = settings, group
        self._remedy = remedy or "POST /hicache/storage-backend/clear"
        self._lock = threading.Lock()
        self._spaces: Dict[str, Space] = {}
        self._namespaces: Dict[str, Namespace] = {}
        self._version = version  # that the namespaces are for
        self._load = 0  # of the weights, likewise
        self._seen = (version, 0)  # of the engine
        self._behind = False  # it has other weights than those that the namespaces are for
        self.turn = 0  # grows whenever pages of before may have become wrong
        self._life = ""  # names namespaces of the engine's own; "": those that it shares
        self._cleared_ns: Optional[int] = None  # when this engine cleared last
        self._uncleared: Set[str] = set()  # whose clear has failed: no page of theirs is used
        self._registering = Patience(settings.attach_timeout_s)
        self._told: Set[str] = set()
        self.client: Optional[Client] = open_client(
            settings.socket, name, settings.connect_timeout_s, logger,
            operations_max=OPERATIONS_MAX, **options)
        self._contact: Optional[FirstContact] = None
        if self.client is not None:
            self._contact = FirstContact(lambda: self.connected, self._is_served,
                                         settings.socket or "the default socket")

    @property
    def connected(self) -> bool:
        """Never waits."""
        client = self.client
        return client is not None and client.connected

    def _is_served(self) -> bool:
        return all([namespace.generation > 0 for namespace in list(self._namespaces.values())])

    def announce(self, what: str) -> None:
        """What this engine keeps in the daemon, into the log: with the first connection. Never
        where a daemon has refused."""
        if self._contact is not None:
            self._contact.tell(what)

    def namespace(self, name: str) -> Optional[Namespace]:
        """The present attachment under that name; None: there is none. Never waits."""
        return self._namespaces.get(name)

    def say_once(self, what: str, level: int = logging.WARNING) -> None:
        """Into the log, the first time that it is said."""
        if what not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(what)
            logger.log(level, "kvsidecar: %s", what)

    def attach(self, name: str, space: Space) -> bool:
        """Attaches, in place of an earlier attachment of that name. Waits at most attach_timeout;
        without a daemon it is attached when there is one. False: refused, said in the log."""
        with self._lock:
            self._spaces[name] = space
            return self._renew(name, None)

    def register(self, registration: Callable[..., Made]) -> Made:
        """What registration(timeout=…) makes, which may wait so long: attach_timeout, and hardly at
        all right behind one that wasn't answered in that time."""
        seconds = self._registering.deadline_s()
        made = registration(timeout=seconds)
        self._registering.ended(seconds, made.status != Status.UNAVAILABLE)
        return made

    def _renew(self, name: str, timeout_s: Optional[float]) -> bool:
        """timeout_s: None for that of a registration."""
        self._drop(name)
        client = self.client
        if client is None:
            return False
        if self._behind or name in self._uncleared:  # until clear()
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
        attach = functools.partial(client.attach, fields, coordinate=space.coordinate, **grouped)
        made = self.register(attach) if timeout_s is None else attach(timeout=timeout_s)
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
                      "have the weights of before, neither loads nor stores any more; "
                      f"{self._remedy} or restart it to go on")

    def follow(self, version: str, load: int = 0) -> None:
        """What SGLang calls its weights now, and a number of its last load of them. If that has
        changed, no namespace is used until clear(): pages of the old weights may still be on their
        way. Returns at once."""
        if (version, load) == self._seen:
            return
        with self._lock:
            self._seen, self._behind = (version, load), True
            self.turn += 1
            gone, self._namespaces = self._namespaces, {}
            for namespace in gone.values():
                namespace.detach()
        self.say_once(f"the weights have version {version or 'unnamed'} now, load {load}: pages "
                      f"are neither loaded nor stored until {self._remedy} says that none of the "
                      "old ones is in use any more")

    def clear(self, timeout_s: float, about: Optional[Mapping[str, Any]] = None) -> bool:
        """No page of before is found again: by anybody, or, where the weights have got another name
        since, by this engine, which joins those that have the same. about: arguments of
        NamespaceFields that name the weights of now. Waits at most timeout_s. False: a namespace
        couldn't be cleared, said in the log; then it isn't used any more until it is."""
        end = time.monotonic() + timeout_s

        def left() -> float:
            return max(end - time.monotonic(), AT_ONCE_S)

        with self._lock:
            self.turn += 1
            updated = self._behind
            joined = self._catch_up(about or {})
            for name in self._spaces if joined else ():
                self._renew(name, left())
            done = joined or self._begin_anew(left)
        if updated and done and self.client is not None:
            logger.info("kvsidecar: this engine goes on with the pages of weights of version %s",
                        self._version or "unnamed")
        return done

    def _begin_anew(self, left: Callable[[], float]) -> bool:
        """A new generation of the namespaces of now. False: not of all of them."""
        self._cleared_ns = time.monotonic_ns()
        own = [name for name, space in self._spaces.items() if space.clears]
        for name in own:
            if name not in self._namespaces:
                self._renew(name, left())
        done, stale = self._clear(own, left)
        for name in stale:  # by somebody, and who knows what has been stored since
            self._renew(name, left())
        again, stale = self._clear(stale, left)
        done |= again | stale  # by somebody since this clear began
        for name, space in self._spaces.items():
            if not space.clears or name in stale:
                self._renew(name, left())
            elif name not in done:
                self._uncleared.add(name)
                self._drop(name)
        return not self._uncleared

    def _catch_up(self, about: Mapping[str, Any]) -> bool:
        """Whether namespaces of other weights than before, or none at all, are to be used."""
        (version, load), before = self._seen, (self._version, self._spaces)
        self._spaces = {name: dataclasses.replace(space, fields=dataclasses.replace(
            space.fields, **about)) for name, space in self._spaces.items()}
        renamed = before != (version, self._spaces)
        # A version that has come and gone leaves no page behind; a load under the same name does.
        only_named = self._behind and load == self._load and not self._uncleared
        self._uncleared = set()
        self._version, self._load, self._behind = version, load, False
        return renamed or only_named

    def _clear(self, names: Iterable[str],
               left: Callable[[], float]) -> Tuple[Set[str], Set[str]]:
        """Those that have got a new generation, and those that somebody else has cleared."""
        begun = [(name, self.client.clear(self._namespaces[name], timeout=left()))
                 for name in names if self.client is not None and name in self._namespaces]
        done, stale = set(), set()
        for name, op in begun:
            result = op.result()
            if result.ok:
                done.add(name)
            elif result.status == Status.STALE_NAMESPACE:
                stale.add(name)
            else:
                logger.error("kvsidecar: the pages of pool %s couldn't be cleared (%s %s); this "
                             "engine doesn't use them any more. Clear again when the daemon "
                             "answers.", self._spaces[name].pool, result.status.name, result.text)
        return done, stale

    def _drop(self, name: str) -> None:
        old = self._namespaces.pop(name, None)
        if old is not None and old.ok:
            old.detach()

    def enter(self, life: str) -> None:
        """From now on namespaces of this engine's own, named by that text, the same on all of its
        ranks; "": those that it shares. Returns at once; operations end UNAVAILABLE until the
        daemon has answered."""
        with self._lock:
            self._life = life
            self._uncleared = set()  # nobody has stored anything in the new ones
            for name in self._spaces:
                self._renew(name, AT_ONCE_S)

    def spaces(self) -> List[Tuple[str, Space]]:
        return list(self._spaces.items())

    def close(self, wait_s: float) -> None:
        """Waits at most wait_s for gets that are being copied. Idempotent."""
        with self._lock:
            client, self.client = self.client, None
            self._namespaces = {}
        if self._contact is not None:
            self._contact.close()
        if client is not None:
            client.close(wait_s)
