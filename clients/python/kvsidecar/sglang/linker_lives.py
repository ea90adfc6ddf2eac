# SPDX-License-Identifier: Apache-2.0
"""Which namespaces of its own a detached engine is in. Each reset leads to others, in which nobody
finds what was stored before. Those that were left are cleared and used again: the daemon keeps a
namespace for as long as it has pages of it, and an engine that updates its weights every minute
would run into the daemon's limit within a day.
"""
from __future__ import annotations

from typing import Dict, List

from .. import Op
from .session import Session

ROUND = 4  # so many resets later namespaces are used again
CLEAR_S = 60.0  # of a busy daemon: nobody waits for it


class Lives:
    """Scheduler's thread only. All ranks of an engine count alike. A rank goes only into namespaces
    that it knows to be empty: whatever else one of them finds there, the others don't."""

    def __init__(self, session: Session, own_id: str) -> None:
        """own_id: the same on all ranks of this start of the engine, and on no other."""
        self._session, self._own_id = session, own_id
        self._number = 0  # resets so far
        self._name = ""  # of the present namespaces; "": those that other engines share
        self._clears: Dict[str, List[Op]] = {}  # of namespaces that were left

    def leave(self) -> None:
        """Clears namespaces of its own that it won't use any more. Idempotent."""
        if self._name:
            self._clears[self._name] = self._clear()
            while len(self._clears) > 2 * ROUND:
                del self._clears[next(iter(self._clears))]
        self._name = ""

    def next(self) -> None:
        """Into namespaces without a page. Returns at once."""
        self.leave()
        self._number += 1
        name = f"{self._own_id} {self._number % ROUND}"
        if self._number > ROUND and not self._is_empty(name):
            name = f"{self._own_id} of reset {self._number}"
        self._name = name
        self._session.enter(name)

    def _clear(self) -> List[Op]:
        client = self._session.client
        found = [self._session.namespace(name) for name, _ in self._session.spaces()]
        if client is None or None in found:
            return []
        return [client.clear(namespace, timeout=CLEAR_S) for namespace in found
                if namespace is not None]

    def _is_empty(self, name: str) -> bool:
        ops = self._clears.get(name, [])
        if not ops or not all([op.finished for op in ops]):
            return False
        del self._clears[name]
        return all([op.result().ok for op in ops])

    def again(self) -> bool:
        """Attaches anew to namespaces of its own that somebody has cleared. False: other engines
        share them, and their weights may differ from this one's since."""
        if self._name:
            self._session.enter(self._name)
        return bool(self._name)
