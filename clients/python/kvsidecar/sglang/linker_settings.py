# SPDX-License-Identifier: Apache-2.0
"""The keys of door B: what linker_extra_config in --unified-cache-external-linker-config may hold.
Needs no SGLang."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple

from ..plugin.settings import Choice, Key, Number
from .settings import Settings, read_settings

WHERE = "linker_extra_config"

KEYS: Dict[str, Tuple[str, Key]] = {
    "on_reset": ("on_reset", Choice("detach", ("detach", "clear", "keep"), (
        "What a reset of the cache does (flush_cache, an update of weights): detach, this engine "
        "goes on with pages of its own; clear, nobody finds the pages of before; keep, nothing."))),
    "lookup_us": ("lookup_s", Number(
        200, 0, 100_000, "How long the scheduler may look for the daemon's answer about a request; "
        "what comes later serves the request's next lookup.", scale=1e-6)),
    "idle_lookup_us": ("idle_lookup_s", Number(
        20_000, 0, 100_000, "The same for the first lookup of an engine that computes nothing: "
        "nobody else waits then, the daemon may have to wake up, and SGLang doesn't ask again. "
        "It sleeps after lookup_us; not less than that.",
        scale=1e-6)),
    "load_timeout_s": ("load_timeout_s", Number(
        5, 0.01, 600, "Deadline of the loads of a batch; then its loading requests are aborted. "
        "The engine's forward waits for them.")),
    "store_timeout_s": ("store_timeout_s", Number(
        10, 0.01, 600, "Deadline of an offload; then its pages are not stored.")),
}


@dataclass(frozen=True)
class LinkerSettings(Settings):
    on_reset: str  # "detach", "clear" or "keep"
    lookup_s: float
    idle_lookup_s: float
    load_timeout_s: float
    store_timeout_s: float

    @classmethod
    def read(cls, extra_config: Any) -> "LinkerSettings":
        """From linker_extra_config. Raises Misuse."""
        return cls(**read_settings(WHERE, KEYS, extra_config, {}))
