# SPDX-License-Identifier: Apache-2.0
"""SGLang's two doors to kvsidecar: HiCache (a HiCacheStorage, through SGLang's host pools) and
Linker (a UnifiedCacheLinker, from device memory). Importing this package imports no SGLang; its
classes do."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hicache import HiCache
    from .linker import Linker

__all__ = ["HiCache", "Linker"]


def __getattr__(name: str) -> Any:
    if name == "HiCache":
        from .hicache import HiCache
        return HiCache
    if name == "Linker":
        from .linker import Linker
        return Linker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
