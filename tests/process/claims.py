# SPDX-License-Identifier: Apache-2.0
"""A look at the claim words of this process's session, behind the client library's back: a test
that is about copies must know when one runs."""
import ctypes
import re

import numpy as np

from raw_peer import CELL_PAGE_BYTES, COPYING

FENCES, CLAIMS = 1024, 8192  # of the daemon's sessions


class Claims:
    """Of the only session that this process has."""

    def __init__(self):
        with open("/proc/self/maps", encoding="utf-8") as file:
            starts = re.findall(
                r"^(\w+)-\w+ rw-s .*/memfd:kvsidecar-cells", file.read(), re.MULTILINE)
        assert len(starts) == 1, starts
        words = (ctypes.c_uint64 * CLAIMS).from_address(
            int(starts[0], 16) + CELL_PAGE_BYTES + 8 * FENCES)
        self.words = np.frombuffer(words, dtype=np.uint64)

    def copying(self):
        return bool(((self.words & np.uint64(0xFF)) == COPYING).any())

    def wait_for_copy(self, op):
        """Returns as soon as an item is being copied, or when there won't be one any more."""
        while not self.copying() and not op.finished:
            pass
