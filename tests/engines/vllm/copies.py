# SPDX-License-Identifier: Apache-2.0
"""Acts in the middle of a copy: looks at the claim words of all sessions of a daemon, in the memory
that the daemon has open."""
import mmap
import os
import threading
import time

import numpy as np

from raw_peer import CELL_PAGE_BYTES, COPYING

FENCES = 1024  # of the daemon's sessions
LOOK_S = 60


def claim_words(daemon):
    """One array per session."""
    folder, found = f"/proc/{daemon.pid}/fd", []
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        try:
            target = os.readlink(path)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("/memfd:kvsidecar-cells"):
            fd = os.open(path, os.O_RDONLY)
            try:
                mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
            finally:
                os.close(fd)
            found.append(np.frombuffer(mapped, dtype=np.uint64)[CELL_PAGE_BYTES // 8 + FENCES:])
    return found


class AtCopy:
    """Does `action` as soon as the daemon copies for one of its present sessions. As a context it
    ends with its thread; `seen` says whether there was a copy."""

    def __init__(self, daemon, action):
        self.seen = False
        self._words = claim_words(daemon)
        assert self._words, "the daemon has no session"
        self._action = action
        self._ended = False
        self._thread = threading.Thread(target=self._look)

    def _look(self):
        end = time.monotonic() + LOOK_S
        state = np.uint64(0xFF)
        while not self._ended and time.monotonic() < end:
            if any(((words & state) == COPYING).any() for words in self._words):
                self._action()
                self.seen = True
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended = True
        self._thread.join()
