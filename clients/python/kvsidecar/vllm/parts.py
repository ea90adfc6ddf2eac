# SPDX-License-Identifier: Apache-2.0
"""Ranks and parts: how many processes an engine has and what each holds of a page."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..identity import Coordinate, Part
from .identity import GroupSpace, coordinates, group_spaces, is_replicated, own_coordinate
from .layout import expected_part_bytes
from .settings import Settings

Bytes = Tuple[int, ...]  # of one rank's part of a page, per KV cache group


def world_size(vllm_config: Any) -> int:
    """Workers of one engine; data parallel replicas are engines of their own."""
    return int(vllm_config.parallel_config.world_size)


def expected_parts(vllm_config: Any, kv_cache_config: Any) -> Dict[int, Bytes]:
    """Per rank, as far as one process can tell: pipeline stages are taken to be alike."""
    alike = tuple(expected_part_bytes(kv_cache_config, group)
                  for group in range(len(kv_cache_config.kv_cache_groups)))
    return {rank: alike for rank in range(world_size(vllm_config))}


def spaces_of(vllm_config: Any, kv_cache_config: Any, settings: Settings,
              parts: Dict[int, Bytes]) -> List[GroupSpace]:
    """The namespaces of an engine whose ranks hold that many bytes each."""
    declared: List[Sequence[Part]] = []
    for index, group in enumerate(kv_cache_config.kv_cache_groups):
        replicated = is_replicated(group, vllm_config)
        size_of: Dict[Coordinate, int] = {}
        for rank, sizes in sorted(parts.items()):
            size_of.setdefault(own_coordinate(vllm_config, rank, replicated), sizes[index])
        declared.append([Part(coordinate, size_of[coordinate])
                         for coordinate in coordinates(vllm_config, replicated)])
    return group_spaces(vllm_config, kv_cache_config, settings, declared)


def own_coordinates(vllm_config: Any, spaces: Sequence[GroupSpace],
                    rank: int) -> Dict[int, Coordinate]:
    """Per group, which part the worker of that rank loads."""
    return {space.group: own_coordinate(vllm_config, rank, space.replicated) for space in spaces}


def stores_group(vllm_config: Any, space: GroupSpace, rank: int) -> bool:
    """Of ranks that hold the same bytes the first one stores them."""
    mine = own_coordinate(vllm_config, rank, space.replicated)
    return all(own_coordinate(vllm_config, other, space.replicated) != mine
               for other in range(rank))
