# SPDX-License-Identifier: Apache-2.0
"""Calls in progress, so that what they use is taken away behind the last of them: whoever closes a
client while another thread is inside it crashes the engine."""
from __future__ import annotations

import threading
from typing import Callable, Optional


class Calls:
    """Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._last: Optional[Callable[[], None]] = None

    def enter(self) -> bool:
        """False: the end has come, nothing may be used any more. Else leave() has to follow."""
        with self._changed:
            if self._last is not None:
                return False
            self._count += 1
            return True

    def leave(self) -> None:
        with self._changed:
            self._count -= 1
            last = self._last if self._count == 0 else None
        if last is not None:
            last()
            with self._changed:
                self._changed.notify_all()

    def end(self, last: Callable[[], None], wait_s: float) -> bool:
        """No call begins any more, and `last` runs once, behind the last call: here, or in its
        thread. Waits at most wait_s for that; False: it is still to come. Again: waits no more."""
        ran = threading.Event()

        def run() -> None:
            last()
            ran.set()

        with self._changed:
            if self._last is not None:
                return True
            self._last = run
            here = self._count == 0
            if not here:
                self._changed.wait_for(ran.is_set, wait_s)
        if here:
            run()
        return ran.is_set()
