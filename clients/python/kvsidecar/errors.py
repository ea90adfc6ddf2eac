# SPDX-License-Identifier: Apache-2.0
"""Exceptions. They tell of misuse and of a client that couldn't be opened; whatever the daemon
answers to an operation is a Status in its result, never an exception."""
from .status import Status


class Misuse(ValueError):
    """An argument is wrong. Nothing was begun."""


class OpenFailed(ConnectionError):
    """No client could be opened."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(f"{status.name}: {text}")
        self.status = status


class LibraryNotFound(ImportError):
    """libkvsidecar-client.so.0 could not be loaded."""
