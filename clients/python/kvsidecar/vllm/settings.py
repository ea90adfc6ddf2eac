# SPDX-License-Identifier: Apache-2.0
"""What an operator may set in kv_connector_extra_config, read once at start. Needs no vLLM.

Every key, its default and its meaning stand in KEYS. Whatever is wrong raises Misuse with a
sentence that names the key, the value and what to do; nothing is guessed.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple


@dataclass(frozen=True)
class Settings:
    """Times are in seconds, whatever the key's unit was."""

    engine_id: str  # of vLLM, the same in all processes of one engine (one per DP replica)
    stores: bool  # kv_producer, kv_both
    loads: bool  # kv_consumer, kv_both
    socket: Optional[str]  # None: $KVSIDECAR_SOCKET, else the daemon's default
    model: Optional[str]  # name in the namespace instead of the model's own
    revision: Optional[str]  # revision in the namespace instead of the one found out
    tenant_salt: Optional[str]
    on_reset: str  # "detach", "clear" or "keep"
    events: str  # "engine" or "off"
    durable: bool
    lookup_deadline_s: float  # from the first ask; then the answer is 0
    spin_s: float  # get_num_new_matched_tokens may spin so long for an answer
    lease_s: float  # how long found pages are held for their load
    leases_max: int  # requests of this engine that hold a lease at once
    load_timeout_s: float
    store_timeout_s: float
    attach_timeout_s: float  # of registering and attaching, in a thread of the client
    connect_timeout_s: float  # the engine waits so long at start for a daemon
    hints: Tuple[str, ...]  # what to tell the operator once, e.g. about keys of the HF3FS connector

    @classmethod
    def read(cls, vllm_config: Any) -> "Settings":
        """From a VllmConfig, of which only kv_transfer_config is looked at. Raises Misuse for an
        unknown or mistyped key (naming the nearest known one), a value out of range, events =
        daemon, and a loading role with kv_load_failure_policy = fail."""
        raise NotImplementedError
