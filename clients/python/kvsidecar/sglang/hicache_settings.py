# SPDX-License-Identifier: Apache-2.0
"""The keys of door A: what --hicache-storage-backend-extra-config may hold. Needs no SGLang."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from ..plugin.settings import Key, Number
from .settings import Settings, read_settings

WHERE = "hicache_storage_backend_extra_config"

# A detach joins each of SGLang's threads for 10 s, and two of these may follow each other in one.
TRANSFER_MOST_S = 4.5

KEYS: Dict[str, Tuple[str, Key]] = {
    "lookup_deadline_ms": ("lookup_deadline_s", Number(
        20, 1, 1000, "How long a query may take; then nothing counts as stored.", scale=1e-3)),
    "get_timeout_s": ("get_timeout_s", Number(
        4, 0.01, TRANSFER_MOST_S, "Deadline of reading a batch of pages; the rest of them count as "
        "missing.")),
    "set_timeout_s": ("set_timeout_s", Number(
        4, 0.01, TRANSFER_MOST_S, "Deadline of storing a batch of pages; the rest of them aren't "
        "stored.")),
    "staging_mib": ("staging_bytes", Number(
        0, 0, 1 << 20, "Memory through which the pages of host pools go that can't be shared; 0: "
        "the client library's own choice.", whole=True)),
}

_NO_RESET = ("HiCache tells a storage backend of no reset; set weights_version to a new text, or "
             "have POST /hicache/storage-backend/clear follow an update of weights")
# Keys of SGLang itself, which stay in what a backend gets to see, and those that can't be had.
SGLANG_KEYS: Mapping[str, Optional[str]] = {
    **dict.fromkeys((
        "backend_name", "module_path", "class_name", "interface_v1", "allocator", "tp_lcm_size",
        "prefetch_threshold", "prefetch_timeout_base", "prefetch_timeout_per_ki_token",
        "hicache_storage_pass_prefix_keys", "file_storage_path")),
    "on_reset": _NO_RESET,
    "use_mock_hf3fs_client": "it is a key of SGLang's HF3FS backend; the daemon's configuration "
                             "names the store ([store] kind and root)",
}


@dataclass(frozen=True)
class HiCacheSettings(Settings):
    lookup_deadline_s: float
    get_timeout_s: float
    set_timeout_s: float
    staging_bytes: int  # 0: the library's default
    allocator: str  # of SGLang's host pools, as asked for: "shm" shares them
    interface_v1: bool  # pages are read and written in place

    @classmethod
    def read(cls, extra_config: Any) -> "HiCacheSettings":
        """From HiCacheStorageConfig.extra_config. Raises Misuse."""
        values = read_settings(WHERE, KEYS, extra_config, SGLANG_KEYS)
        values["staging_bytes"] = values["staging_bytes"] << 20
        given = extra_config or {}
        return cls(allocator=str(given.get("allocator", "default")),
                   interface_v1=bool(given.get("interface_v1", 0)), **values)
