# SPDX-License-Identifier: Apache-2.0
"""One process's connection to its node's daemon: opened whether there is one or not, and what goes
wrong said once."""
from __future__ import annotations

import logging
import uuid
from typing import Any, List, Optional, Tuple

from .._core import Handle
from ..client import LEVELS, Client
from ..errors import LibraryNotFound, OpenFailed
from ..status import LogLevel

_GROUPS = uuid.UUID("6f0c9b1e-2f0e-5b0b-8f57-6b7673696465")  # of uuids made from engine ids


def group_uuid(own_id: str) -> bytes:
    """The 16 bytes by which the processes of one start of an engine know each other."""
    return uuid.uuid5(_GROUPS, own_id).bytes


def open_client(socket: Optional[str], name: str, connect_timeout_s: float,
                logger: logging.Logger, **options: Any) -> Optional[Client]:
    """Waits at most connect_timeout_s. Without a daemon the client goes on trying by itself, said
    once. None: a daemon refuses, or there is no client library; the engine serves without it, for
    good. options: of Client. What the client says goes to the logger, from any thread."""
    opening = True
    heard: List[Tuple[LogLevel, str]] = []  # meanwhile

    def log(level: LogLevel, text: str) -> None:
        logger.log(LEVELS.get(level, logging.ERROR), "kvsidecar: %s", text)

    def hear(level: LogLevel, text: str) -> None:
        if opening:
            heard.append((level, text))
        else:
            log(level, text)

    try:
        client = Client(socket, name=name, allow_disconnected=True,
                        connect_timeout=connect_timeout_s, log=hear, **options)
    except (OpenFailed, LibraryNotFound) as error:
        logger.error("kvsidecar: %s. The engine serves without it until it is started again.",
                     error)
        return None
    opening = False
    reason = ""
    if not client.connected:
        reason = heard.pop()[1] if heard else "no answer"
    for level, text in heard:
        log(level, text)
    if reason:  # said once, with what follows from it
        logger.warning("kvsidecar: no daemon takes this engine at %s (%s); the engine serves "
                       "without it and attaches by itself as soon as one does",
                       socket or "the default socket", reason)
    return client


def accepted(handle: Handle, what: str, logger: logging.Logger) -> bool:
    """Whether the daemon has taken a registration, or will when there is one; a refusal is said."""
    if not handle.ok:
        logger.error("kvsidecar: the daemon refused %s: %s %s. The engine serves without it.", what,
                     handle.status.name, handle.text)
    return handle.ok
