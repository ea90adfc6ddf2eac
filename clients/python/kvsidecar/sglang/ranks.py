# SPDX-License-Identifier: Apache-2.0
"""Which share of a page a rank holds, and which ranks make a page complete."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Tuple

from ..identity import Coordinate, Part


@dataclass(frozen=True)
class Ranks:
    """One rank among those of its engine. Data parallel ranks aren't told apart: replicas share."""

    tp_rank: int = 0  # within the attention group where data parallel attention is on
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    cp_rank: int = 0
    cp_size: int = 1
    several_nodes: bool = False

    def coordinate(self, replicated: bool) -> Coordinate:
        """The share that this rank reads. replicated: all tp ranks hold the same bytes."""
        return Coordinate(0 if replicated else self.tp_rank, self.pp_rank, self.cp_rank)

    def writes(self, replicated: bool) -> bool:
        """Of ranks that hold the same bytes the first one stores them."""
        return not replicated or self.tp_rank == 0

    @property
    def alone(self) -> bool:
        """Pages of one rank are complete without the others': a daemon serves one node, and under
        context parallelism not every rank of the grid exists. SGLang itself reduces over ranks."""
        return self.several_nodes or self.cp_size > 1

    def parts(self, page_bytes: int, replicated: bool) -> List[Part]:
        """What a page of this pipeline stage is made of; stages hold other layers, and a page of
        one is complete without the others'."""
        if replicated or self.alone:
            return [Part(self.coordinate(replicated), page_bytes)]
        return [Part(Coordinate(tp, self.pp_rank, self.cp_rank), page_bytes)
                for tp in range(self.tp_size)]

    def slice(self, replicated: bool) -> Tuple[int, int]:
        """(slice, slices) of a namespace."""
        return (self.tp_rank, self.tp_size) if self.alone and not replicated else (0, 1)

    def split(self, sizes: int) -> List["Ranks"]:
        """The ranks of an engine of `sizes` tp ranks whose heads this one holds, in the heads'
        order; sizes is a multiple of tp_size. Engines of other tp sizes share through them."""
        share = sizes // self.tp_size
        return [replace(self, tp_size=sizes, tp_rank=self.tp_rank * share + i)
                for i in range(share)]
