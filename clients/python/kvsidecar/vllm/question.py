# SPDX-License-Identifier: Apache-2.0
"""One lookup of a prompt: an operation per page size, one answer."""
from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Tuple

from .. import Found, PreparedLookup, Status
from ..status import Place
from .pages import Geometry, Keys, lengths


class Piece(NamedTuple):
    """What was asked about one page size."""

    size: int  # tokens of a page
    first: int  # index of the first page asked about
    found: Found


class Question:
    """Sent on construction. Nothing in it waits."""

    __slots__ = ("local", "leased", "sent_ns", "lease_end_ns", "spun", "noted", "pieces")

    def __init__(self, prepared: Dict[int, PreparedLookup], keys: Dict[int, Keys], local: int,
                 lease_s: float) -> None:
        """Both per page size; keys: of the whole prompt. local: tokens that needn't be asked about,
        a multiple of every page size. lease_s: of prepared; 0: none."""
        self.local = local
        self.leased = lease_s > 0
        self.sent_ns = time.monotonic_ns()
        self.lease_end_ns = self.sent_ns + int(lease_s * 1e9)
        self.spun = self.noted = False
        self.pieces: List[Piece] = []
        for size, lookup in prepared.items():
            known, first = keys[size], local // size
            end = min(known.count, first + lookup.keys_max)  # what lies beyond isn't asked about
            if end > first:
                asked = known.part(first, end) if first or end < known.count else known.bytes
                self.pieces.append(Piece(size, first, lookup.begin(asked, known.key_bytes)))

    @property
    def unavailable(self) -> bool:
        """No daemon could be asked. Told right after construction."""
        for piece in self.pieces:
            if piece.found.status == Status.UNAVAILABLE:
                return True
        return False

    @property
    def finished(self) -> bool:
        return all([piece.found.finished for piece in self.pieces])

    def spin(self, until_ns: int) -> bool:
        """finished, looked at again and again until that moment."""
        self.spun = True
        done = self.finished
        while not done and time.monotonic_ns() < until_ns:
            done = self.finished
        return done

    def wait(self, nanoseconds: int) -> bool:
        """finished, after at most so much sleep."""
        end = time.monotonic_ns() + nanoseconds
        for piece in self.pieces:
            piece.found.wait(end - time.monotonic_ns())
        return self.finished

    @property
    def answered(self) -> bool:
        """Of a finished one: the daemon has answered all of it."""
        return all([piece.found.status == Status.OK for piece in self.pieces])

    @property
    def leases(self) -> List[int]:
        """Of a finished one."""
        return [lease for piece in self.pieces if (lease := piece.found.lease)]

    def tokens(self, geometry: Geometry, local: int, limit: int) -> int:
        """The longest restorable prefix of more than `local` and at most `limit` tokens, else 0.
        local may have grown since the question was asked: what begins later needs less."""
        if not self.pieces or len(self.pieces) < len(geometry.by_size) or not self.answered:
            return 0
        if len(self.pieces) == 1:
            size, first, found = self.pieces[0]
            longest = (first + found.longest) * size
            if longest <= local or longest <= first * size:
                return 0
            if longest <= limit and longest % geometry.alignment == 0:
                return longest
        restorable = {piece.size: (piece.first * piece.size, piece.found.restorable)
                      for piece in self.pieces}
        return lengths(restorable, geometry.alignment, local, limit)

    def promising(self, local: int) -> bool:
        """Whether pages beyond `local` are there although those before it may be gone."""
        return any(
            places[local // piece.size - piece.first:local // piece.size - piece.first + 1] > b"\0"
            for piece in self.pieces if (places := piece.found.places_bytes))

    def places(self, local: int, tokens: int) -> Dict[str, int]:
        """Where the tokens between `local` and `tokens` are found: they add up. A page that only a
        window or a state needs counts as host."""
        piece = self.pieces[0]
        raw = piece.found.places_bytes[local // piece.size - piece.first:
                                        tokens // piece.size - piece.first]
        found = {name: raw.count(place) * piece.size
                 for name, place in (("store", Place.STORE), ("remote", Place.REMOTE))}
        found["host"] = tokens - local - sum(found.values())
        return found

    def present(self, size: int) -> int:
        """How many pages from the prompt's beginning are known to be there."""
        for piece in self.pieces:
            if piece.size == size and piece.first == 0 and piece.found.status == Status.OK:
                return _leading(piece.found.places_bytes)
        return 0

    @property
    def failure(self) -> Tuple[Status, str]:
        """Of a finished one that wasn't answered."""
        for piece in self.pieces:
            if piece.found.status != Status.OK:
                return piece.found.status, piece.found.text
        return Status.OK, ""


def _leading(places: bytes) -> int:
    """Pages before the first miss."""
    gap = places.find(bytes((Place.MISS,)))
    return len(places) if gap < 0 else gap

