# SPDX-License-Identifier: Apache-2.0
"""What an operator may set in kv_connector_extra_config, read once at start. Needs no vLLM.

Every key, its default and its meaning stand in KEYS. Whatever is wrong raises Misuse with a
sentence that names the key, the value and what to do; nothing is guessed. Keys of vLLM's HF3FS
connector are accepted and ignored; HF3FS_KEYS says what does their work here.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..errors import Misuse
from ..plugin.settings import Choice, Key, Number, Switch, Text, read_keys, unknown

WHERE = "kv_connector_extra_config"

# Key: (setting, how it is read). Units stand last in a key's name; settings are in seconds.
KEYS: Dict[str, Tuple[str, Key]] = {
    "socket": ("socket", Text(None, "Socket of the node's daemon; without it $KVSIDECAR_SOCKET, "
                                    "else /run/kvsidecar/kvsidecar.sock.")),
    "model": ("model", Text(None, "Name of the model in the daemon; without it the model's own.")),
    "revision": ("revision", Text(None, "Revision of the weights; without it the hub's commit, "
                                        "else a fingerprint of the model's folder.")),
    "tenant_salt": ("tenant_salt", Text(None, "Engines with another salt share nothing.")),
    "on_reset": ("on_reset", Choice("detach", ("detach", "clear", "keep"), (
        "What a reset of the prefix cache does: detach, this engine goes on with pages of its "
        "own; clear, nobody finds the pages of before; keep, nothing."))),
    "events": ("events", Choice("engine", ("engine", "off"), (
        "Who tells of stored pages: engine, through vLLM's own KV events; off, nobody."),
        {"daemon": "the daemon publishes no events yet"})),
    "durable": ("durable", Switch(False, "A page counts as stored only when the store has it.")),
    "lookup_deadline_ms": ("lookup_deadline_s", Number(
        20, 0, 10_000, "How long a request may wait for the daemon's answer, from the first "
        "time the scheduler asks; then it counts as a miss.", scale=1e-3)),
    "spin_us": ("spin_s", Number(
        50, 0, 10_000, "How long the scheduler looks for that answer before it goes on with "
        "other requests; where there are none, it sleeps up to 1 ms more. 0: never.", scale=1e-6)),
    "lease_s": ("lease_s", Number(
        30, 0.1, 600, "How long the daemon holds found pages until they are loaded.")),
    "leases_max": ("leases_max", Number(
        256, 0, 65_536, "Requests that hold pages at once; the others load what is still there.",
        whole=True)),
    "load_timeout_s": ("load_timeout_s", Number(
        10, 0.01, 600, "Deadline of a load; then its request computes the tokens.")),
    "store_timeout_s": ("store_timeout_s", Number(
        10, 0.01, 600, "Deadline of a store; then its pages are not stored.")),
    "attach_timeout_s": ("attach_timeout_s", Number(
        5, 0.01, 600, "Deadline of registering memory and of attaching.")),
    "connect_timeout_s": ("connect_timeout_s", Number(
        2, 0, 600, "How long the engine's start waits for a daemon; without one it starts all "
        "the same and attaches later.")),
}

# What does the work of the HF3FS connector's keys here.
HF3FS_KEYS: Dict[str, str] = {
    "hf3fs_storage_path": "the daemon's configuration: [store] root",
    "hf3fs_metadata_server_url": "nothing: the daemon has an index of its own, no server is run",
    "hf3fs_file_size": "the daemon's configuration: [store] capacity_bytes for all of it, "
                       "segment_bytes for one file",
    "hf3fs_client_numjobs": "the daemon's configuration: [store] depth",
    "hf3fs_max_device_buffer_count": "the daemon's configuration: [host_pool] bytes",
}


@dataclass(frozen=True)
class Settings:
    """Times are in seconds, whatever the key's unit was."""

    engine_id: str  # of vLLM, the same in all processes of one engine (one per DP replica)
    own_id: str  # and of this one start of it: what nobody else may find is named by it
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
        """From a VllmConfig: its kv_transfer_config and instance_id. Raises Misuse for an
        unknown or mistyped key (naming the nearest known one), a value out of range, events =
        daemon, and a loading role with kv_load_failure_policy = fail."""
        transfer = vllm_config.kv_transfer_config
        role = transfer.kv_role
        if role not in ("kv_producer", "kv_consumer", "kv_both"):
            raise Misuse(f"kv_role is {role!r}; set it to kv_both, kv_producer (stores only) or "
                         "kv_consumer (loads only)")
        loads = role != "kv_producer"
        if loads and getattr(transfer, "kv_load_failure_policy", "fail") != "recompute":
            raise Misuse(POLICY)
        given = transfer.kv_connector_extra_config
        if not isinstance(given, Mapping):
            raise Misuse(f"{WHERE} is {given!r}; give a JSON object of keys and values")
        values = read_keys(WHERE, KEYS, given)
        return cls(engine_id=str(transfer.engine_id), own_id=own_id(vllm_config),
                   stores=role != "kv_consumer", loads=loads, hints=tuple(_hints(given)), **values)


def own_id(vllm_config: Any) -> str:
    """An operator may give every start of an engine the same engine id; vLLM's instance id, made
    anew with each VllmConfig and handed to all processes, tells them apart."""
    instance = getattr(vllm_config, "instance_id", "")
    return f"{vllm_config.kv_transfer_config.engine_id} {instance}".rstrip()


POLICY = (
    'kv_load_failure_policy is "fail": a page that is gone by the time it is loaded would end its '
    'request with an error; set "kv_load_failure_policy": "recompute" in --kv-transfer-config '
    "(beside kv_connector; under MultiConnector in this connector's entry and on top)")


def _hints(given: Mapping[str, Any]) -> List[str]:
    """One for each key of the HF3FS connector; raises Misuse for keys that nobody knows."""
    hints = []
    for name in given:
        if name in HF3FS_KEYS:
            hints.append(f"{WHERE}: {name} is a key of the HF3FS connector and has no effect; "
                         f"what replaces it: {HF3FS_KEYS[name]}")
        elif name not in KEYS:
            raise unknown(WHERE, KEYS, name, given[name])
    return hints
