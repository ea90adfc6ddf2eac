# SPDX-License-Identifier: Apache-2.0
"""What an operator may set for either door of SGLang, read once at start. Needs no SGLang.

COMMON holds the keys of both doors; hicache_settings.py and the linker's settings add their own.
Whatever is wrong raises Misuse with a sentence that names the key, the value and what to do.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from ..errors import Misuse
from ..plugin.settings import Key, Number, Switch, Text, read_keys, show, unknown

COMMON: Dict[str, Tuple[str, Key]] = {
    "socket": ("socket", Text(None, "Socket of the node's daemon; without it $KVSIDECAR_SOCKET, "
                                    "else /run/kvsidecar/kvsidecar.sock.")),
    "model": ("model", Text(None, "Name of the model in the daemon; without it the model's own.")),
    "revision": ("revision", Text(None, "Revision of the weights; without it the hub's commit, "
                                        "else a fingerprint of the model's folder.")),
    "weights_version": ("weights_version", Text(None, (
        "Names weights that were loaded under an old name while the engine ran; engines with "
        "another version share nothing."))),
    "tenant_salt": ("tenant_salt", Text(None, "Engines with another salt share nothing.")),
    "identity": ("identity", Text(None, (
        "Whatever else decides the bytes of the cache and can't be seen here, in any words; "
        "engines with other words share nothing."))),
    "durable": ("durable", Switch(False, "A page counts as stored only when the store has it.")),
    "lease_s": ("lease_s", Number(
        10, 0.1, 600, "How long the daemon holds found pages until they are loaded.")),
    "attach_timeout_s": ("attach_timeout_s", Number(
        5, 0.01, 600, "Deadline of registering memory and of attaching.")),
    "connect_timeout_s": ("connect_timeout_s", Number(
        2, 0, 600, "How long the engine's start waits for a daemon; without one it starts all "
        "the same and attaches later.")),
}


@dataclass(frozen=True)
class Settings:
    """Of both doors. Times are in seconds, whatever the key's unit was."""

    socket: Optional[str]  # None: $KVSIDECAR_SOCKET, else the daemon's default
    model: Optional[str]  # name in the namespace instead of the model's own
    revision: Optional[str]  # revision in the namespace instead of the one found out
    weights_version: Optional[str]
    tenant_salt: Optional[str]
    identity: Optional[str]  # further words of the namespace
    durable: bool
    lease_s: float
    attach_timeout_s: float  # of registering and attaching; the client goes on by itself
    connect_timeout_s: float  # the engine waits so long at start for a daemon


def read_settings(where: str, keys: Mapping[str, Tuple[str, Key]], given: Any,
                  known: Mapping[str, Optional[str]]) -> Dict[str, Any]:
    """Arguments of Settings (or a class with more), of COMMON and the door's own `keys`. known:
    keys that belong to somebody else, each with None (ignored) or the reason why it is refused.
    Raises Misuse for what is unknown or wrong."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise Misuse(f"{where} is {show(given)}; give a JSON object of keys and values")
    every = {**COMMON, **keys}
    for name, value in given.items():
        if name in every:
            continue
        if name not in known:
            raise unknown(where, every, name, value, known)
        reason = known[name]
        if reason is not None:
            raise Misuse(f"{where}: {name} = {show(value)} can't be had: {reason}")
    return read_keys(where, every, given)
