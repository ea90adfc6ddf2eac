# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the client library once: $KVSIDECAR_LIBRARY, then next to this package, then
where the loader looks. Nothing is loaded before the first call that needs it."""
import ctypes
import os
from typing import Optional

from . import _structs
from .errors import LibraryNotFound

NAME = "libkvsidecar-client.so.0"
ABI_MAJOR = 0

_loaded: Optional[ctypes.CDLL] = None


def _path() -> str:
    named = os.environ.get("KVSIDECAR_LIBRARY")
    if named:
        return named
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    return beside if os.path.exists(beside) else NAME


def library() -> ctypes.CDLL:
    """The library, its functions typed. CDLL lets go of the GIL during every call."""
    global _loaded
    if _loaded is None:
        path = _path()
        try:
            found = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryNotFound(
                f"{error}; name the client library's file in KVSIDECAR_LIBRARY") from None
        _structs.declare(found)
        major = found.kvs_version() >> 16
        if major != ABI_MAJOR:
            raise LibraryNotFound(f"{path} has ABI {major}, this package needs {ABI_MAJOR}")
        _loaded = found
    return _loaded
