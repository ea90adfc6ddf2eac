# SPDX-License-Identifier: Apache-2.0
"""KV events about pages in the daemon, through the engine's own publisher (take_events).

Only the scheduler uses it. What is said is a hint for routers: a page may be evicted later
without a word.
"""
from __future__ import annotations

from typing import Any, List, Sequence

from .identity import GroupSpace
from .settings import Settings


class Events:
    def __init__(self, vllm_config: Any, settings: Settings, spaces: Sequence[GroupSpace]) -> None:
        """Does nothing at all where settings.events is off or vLLM's own events are."""

    def stored(self, request: Any, group: int, pages: Sequence[int]) -> None:
        """Pages (ordinals within the prompt, of this group's size) of a request are complete in the
        daemon. `request` is vLLM's Request; what is needed is taken from it at once."""

    def removed(self, group: int, block_hashes: Sequence[bytes]) -> None:
        """Pages that turned out to be gone."""

    def take(self) -> List[Any]:
        """The events since the last take, as vLLM's BlockStored and BlockRemoved."""
        raise NotImplementedError
