# SPDX-License-Identifier: Apache-2.0
"""What decides the bytes of a page, per KV cache group of an engine.

All processes of an engine come to the same answer from vllm_config and kv_cache_config alone. Data
parallel rank and engine id stay out: replicas share. vLLM is asked only for platform and release.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence

from ..identity import Coordinate, NamespaceFields, Part
from ..status import Policy
from .settings import Settings


@dataclass(frozen=True)
class GroupSpace:
    """One KV cache group as the daemon knows it."""

    group: int  # index in kv_cache_config.kv_cache_groups
    fields: NamespaceFields
    kind: str  # "full", "window", "chunk", "state" or "none" (never stored: no key names its bytes)
    policy: Policy  # which pages of a prefix must be there
    trailing: int  # pages, for Policy.TRAILING_PAGES
    tokens_per_page: int  # of one block of this group, times the context-parallel ranks
    replicated: bool  # all tp ranks hold the same bytes (MLA): one part, stored by tp rank 0


def coordinates(vllm_config: Any, replicated: bool) -> List[Coordinate]:
    """The parts of a page of this engine, in declared order: tp fastest, then cp, then pp."""
    raise NotImplementedError


def own_coordinate(vllm_config: Any, rank: int, replicated: bool) -> Coordinate:
    """Which part the worker of this global rank (without data parallelism) holds."""
    raise NotImplementedError


def is_replicated(kv_cache_group: Any) -> bool:
    """Whether all tp ranks hold the same bytes of this group."""
    raise NotImplementedError


def group_spaces(vllm_config: Any, kv_cache_config: Any, settings: Settings,
                 parts: Sequence[Sequence[Part]]) -> List[GroupSpace]:
    """One per KV cache group. parts: per group, the parts of a page with their bytes, in the order
    of coordinates(). Raises Misuse for an engine over several nodes and for block sizes that don't
    divide, with both numbers."""
    raise NotImplementedError


def random_seed_remedy(vllm_config: Any) -> Optional[str]:
    """A sentence for the log when block hashes are seeded at random, else None."""
    raise NotImplementedError
