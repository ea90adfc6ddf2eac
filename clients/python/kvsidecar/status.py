# SPDX-License-Identifier: Apache-2.0
"""Statuses, places and events: the numbers of the C ABI. Who owns the memory after each status
stands in kvsidecar_status.h; of a finished operation it is always the engine."""
from enum import IntEnum


class Status(IntEnum):
    """Of a call, of an operation, and of each item of an operation."""

    OK = 0
    OK_PART = 1
    EXISTS = 2
    MISS = 3
    NOT_STORED = 4
    TIMEOUT = 5
    REVOKED = 6
    ABANDONED = 7
    BUSY = 8
    IO_ERROR = 9
    CORRUPT = 10
    INVALID = 11
    UNKNOWN_HANDLE = 12
    STALE_HANDLE = 13
    STALE_NAMESPACE = 14
    STALE_MAPPING = 15
    EXPIRED = 16
    DENIED = 17
    OVER_QUOTA = 18
    MEMORY_FAULT = 19
    UNAVAILABLE = 20
    UNSUPPORTED_VERSION = 21
    DRAINING = 22
    INTERNAL = 23

    @classmethod
    def _missing_(cls, value: object) -> "Status":
        return cls.INTERNAL  # a newer library's failure is a failure


class Place(IntEnum):
    """Where a looked-up page is."""

    MISS = 0
    HOST = 1
    STORE = 2
    REMOTE = 3


class EventKind(IntEnum):
    FINISHED = 1
    OVERDUE = 2  # a get past its deadline whose blocks are still being written


class Policy(IntEnum):
    """When a prefix of a pool is restorable: all its pages are there, or its last n."""

    ALL_PAGES = 0
    TRAILING_PAGES = 1


class Stat(IntEnum):
    STATUS = 0
    NAMESPACES = 1
    SESSIONS = 2
    DRAIN = 3


class LogLevel(IntEnum):
    INFO = 1
    WARNING = 2
    ERROR = 3
