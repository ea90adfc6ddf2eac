# SPDX-License-Identifier: Apache-2.0
"""What engines leave in /dev/shm when their processes are killed: queues of hundreds of megabytes,
and other files."""
import contextlib
import os
import re

_OURS = re.compile(r" (/dev/shm/(?:psm_|sem\.mp-|vllm_|sgl_shm_)\S+)$", re.MULTILINE)


def _mapped_by(session):
    """Engines' files in /dev/shm that a process of that session has mapped."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            if os.getsid(int(pid)) == session:
                with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                    found.update(_OURS.findall(maps.read()))
    return found


@contextlib.contextmanager
def no_litter(session):
    """Within it the processes of a session end, one way or another."""
    found = _mapped_by(session)
    try:
        yield
    finally:
        for path in found:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
