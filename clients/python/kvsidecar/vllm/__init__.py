# SPDX-License-Identifier: Apache-2.0
"""vLLM's KV connector for kvsidecar: Connector. Importing this package imports no vLLM; its
connector does."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .connector import Connector

__all__ = ["Connector"]


def __getattr__(name: str) -> Any:
    if name == "Connector":
        from .connector import Connector
        return Connector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
