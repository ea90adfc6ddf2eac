# SPDX-License-Identifier: Apache-2.0
"""What is said when the daemon takes this engine: at start, or as soon as there is one."""
from __future__ import annotations

import logging
import threading
from typing import Callable, List, Optional

from ..errors import Misuse

logger = logging.getLogger("sglang.kvsidecar")

LOOK_S = 0.5


class FirstContact:
    """Any thread. Has one of its own until the first connection, where there is none yet."""

    def __init__(self, connected: Callable[[], bool], served: Callable[[], bool],
                 where: str) -> None:
        """connected, served: whether there is a daemon, and whether it has refused no namespace;
        neither waits, and neither is called any more after close(). where: its socket."""
        self._connected, self._served, self._where = connected, served, where
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._kept: Optional[List[str]] = None  # to be said then; None: there was a connection
        self._thread: Optional[threading.Thread] = None
        if not connected():
            self._kept = []
            self._thread = threading.Thread(target=self._look, name="kvsidecar-first-contact",
                                            daemon=True)
            self._thread.start()

    def tell(self, what: str) -> None:
        """Into the log, with the daemon's socket; later where there is no daemon yet."""
        with self._lock:
            if self._kept is None:
                self._say(what)
            else:
                self._kept.append(what)

    def _say(self, what: str) -> None:
        logger.info("kvsidecar: %s, in the daemon at %s", what, self._where)

    def _look(self) -> None:
        try:
            while not self._ended.wait(LOOK_S):
                if self._connected():
                    self._connect()
                    return
        except Misuse:  # the interpreter's end has closed the client
            pass

    def _connect(self) -> None:
        follows = "; pages are stored and loaded from now on" if self._served() else ""
        with self._lock:
            kept, self._kept = self._kept or [], None
            logger.info("kvsidecar: connected to the daemon at %s%s", self._where, follows)
            for what in kept:
                self._say(what)

    def close(self) -> None:
        """Waits for a look that has begun. Idempotent."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
