# SPDX-License-Identifier: Apache-2.0
"""Waiting for events with a deadline. Nothing here waits blindly: each look at a condition is
followed by a wait for a descriptor that tells more, most often a process's end."""
import os
import select
import time

DEADLINE_S = 20.0
LOOK_S = 0.01


def eventually(condition, what, pid=None, seconds=DEADLINE_S, look=LOOK_S):
    """The first true value of condition(). AssertionError when the time is over, or when the
    process `pid`, whose doing it is, has ended before."""
    end = time.monotonic() + seconds
    pidfd = None if pid is None else os.pidfd_open(pid)
    try:
        while True:
            value = condition()
            if value:
                return value
            left = end - time.monotonic()
            assert left > 0, f"not within {seconds} s: {what}; last seen: {value!r}"
            ended, _, _ = select.select([] if pidfd is None else [pidfd], [], [], look)
            assert not ended, f"process {pid} ended before: {what}"
    finally:
        if pidfd is not None:
            os.close(pidfd)


def readable(fds, seconds=DEADLINE_S):
    """Those of the descriptors (or sockets) that can be read, as soon as one can."""
    ready, _, _ = select.select(fds, [], [], max(0.0, seconds))
    return ready


def ended_within(pidfd, seconds=DEADLINE_S):
    return bool(readable([pidfd], seconds))
