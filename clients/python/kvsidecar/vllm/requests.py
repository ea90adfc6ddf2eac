# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's side keeps per request, and which pages a step makes whole. Nothing here
talks to the daemon. Scheduler's thread only."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .adapters import PENDING, USABLE, Adapters
from .agenda import NEVER
from .pages import Geometry, Keys, Pages, joined_keys

NULL_BLOCK = 0  # vLLM's: what a window has left behind


class Track:
    """One request that the engine has."""

    __slots__ = ("request", "keys", "keys_hashes", "stored", "loading", "places", "local",
                 "present", "mixed")

    def __init__(self, request: Any) -> None:
        self.request = request
        self.keys: Dict[int, Keys] = {}  # of its prompt, per page size
        # Of the block hashes that `keys` were made of: how many, and the last, which names all.
        self.keys_hashes: Tuple[int, Optional[bytes]] = (-1, None)
        self.stored: Dict[int, int] = {}  # per group: pages that need no store
        self.loading: Tuple[int, ...] = ()  # leases of the load in flight
        self.places: Dict[str, int] = {}  # tokens of its latest load by place
        self.local = 0  # tokens in the engine's blocks when it was last looked up
        self.present: Dict[int, Optional[int]] = {}  # see begins()
        self.mixed = False  # what is in its blocks may be of before a reset: none of it is stored


class Requests:
    def __init__(self, geometry: Geometry, adapters: Adapters, positional_states: bool) -> None:
        """positional_states: states of recurrent groups lie in the block table like other pages;
        else only what vLLM offers at a boundary is whole."""
        self.geometry = geometry
        self.tracks: Dict[str, Track] = {}
        # Per request: computed tokens with which its next page is whole.
        self.due: Dict[str, int] = {}
        # Requests that got blocks since the last step, with their tables.
        self.fresh: Dict[str, Sequence[Sequence[int]]] = {}
        # vLLM's own cache wasn't empty at the latest reset: it may give requests blocks of before.
        self.own_cache_is_old = False
        # In this step some begin with tokens that neither we nor vLLM's own cache have given them.
        self.loaded_by_others = False
        self._adapters = adapters
        self._positional = [s for s in geometry.spaces
                            if s.kind != "state" or positional_states]

    def add(self, request: Any) -> Track:
        track = self.tracks.get(request.request_id)
        if track is None or track.request is not request:
            track = self.tracks[request.request_id] = Track(request)
            self.due[request.request_id] = 0
            lora = getattr(request, "lora_request", None)
            if lora is not None:
                self._adapters.prepare(lora)
        return track

    def drop(self, request_id: str) -> Optional[Track]:
        self.due.pop(request_id, None)
        self.fresh.pop(request_id, None)
        return self.tracks.pop(request_id, None)

    def content_id(self, track: Track) -> Tuple[str, Optional[bytes]]:
        """(state, id) of the request's adapter; (USABLE, b"") without one."""
        lora = getattr(track.request, "lora_request", None)
        return (USABLE, b"") if lora is None else self._adapters.content_id(lora)

    def keys(self, track: Track) -> Tuple[str, Dict[int, Keys]]:
        """(state of the adapter, keys of the prompt as it is now per page size)."""
        hashes = track.request.block_hashes
        # A streaming session takes its last token back: as many hashes, but others.
        known = (len(hashes), hashes[-1] if hashes else None)
        state, content_id = self.content_id(track)
        if state != USABLE or content_id is None:
            return state, {}
        if track.keys_hashes == known:
            return USABLE, track.keys
        tokens = self.geometry.usable_tokens(track.request.num_tokens, len(hashes))
        track.keys = {size: self.geometry.keys(hashes, size, content_id, tokens)
                      for size in self.geometry.by_size}
        track.keys_hashes = known
        return USABLE, track.keys

    def given(self, track: Track, table: Sequence[Sequence[int]]) -> None:
        """vLLM has given the request these blocks, per group; the first ones may be a hit."""
        self.fresh[track.request.request_id] = table

    def start(self, output: Any) -> None:
        """Once a step with fresh ones: those of them that are computed in it begin with what is in
        their blocks."""
        cached = output.scheduled_cached_reqs
        starts = [(new.req_id, new.num_computed_tokens) for new in output.scheduled_new_reqs]
        if cached.resumed_req_ids:
            starts += [(req_id, computed) for req_id, computed
                       in zip(cached.req_ids, cached.num_computed_tokens)
                       if req_id in cached.resumed_req_ids]
        for req_id, computed in starts:
            track = self.tracks.get(req_id)
            if track is not None:
                self.loaded_by_others |= computed > track.local and not track.places
                track.local = min(track.local, computed)
                self.begins(track, computed)

    def end_step(self) -> None:
        self.loaded_by_others = False
        self.fresh.clear()

    def touched(self, output: Any) -> List[int]:
        """Blocks that somebody else's bytes go into from this step on: stores of what was in them
        before are over. Whatever lies behind the request's local hit counts, also what a load
        (ours or another connector's) fills. Too many do no harm but to those stores."""
        touched: List[int] = []
        for blocks in [b for b in output.scheduled_cached_reqs.new_block_ids if b is not None]:
            for ids in blocks:
                touched += ids
        for req_id, table in self.fresh.items():
            track = self.tracks.get(req_id)
            local = track.local if track is not None else 0
            for group, ids in enumerate(table):
                size = self.geometry.page_tokens.get(group)
                touched += ids[local // size:] if size else ids
        return touched

    def begins(self, track: Track, computed: int) -> None:
        """The request is scheduled with `computed` tokens in its blocks. track.present: per page
        size the pages that the daemon is known to have from the beginning; None: unknown. What the
        engine has and the daemon has lost is stored again."""
        for space in self.geometry.spaces:
            size = space.tokens_per_page
            have = computed // size
            known = track.present.get(size)
            track.stored[space.group] = have if known is None else min(have, known)
        track.mixed = self.own_cache_is_old and (
            track.local > 0 or track.mixed and computed > 0)
        self._set_due(track)

    def _set_due(self, track: Track) -> None:
        due = NEVER
        for space in self._positional if not track.mixed else ():
            due = min(due, (track.stored[space.group] + 1) * space.tokens_per_page)
        self.due[track.request.request_id] = due

    def outlive(self, own_cache_is_old: bool) -> None:
        """After a reset: what requests hold is of before it, unless the engine's own cache was
        empty, when none holds anything."""
        self.own_cache_is_old = own_cache_is_old
        for track in self.tracks.values():
            track.present = {}
            track.mixed = own_cache_is_old and bool(track.stored or track.places)
            if track.mixed:
                self.due[track.request.request_id] = NEVER

    def whole_pages(self, track: Track, computed: int,
                    table: Optional[Sequence[Sequence[int]]]
                    ) -> List[Tuple[Pages, Sequence[int]]]:
        """Pages that are whole with `computed` tokens and weren't before, and which of the prompt's
        they are. Only as far as their hashes are known: of tokens that are merely speculated on
        there is none yet."""
        hashes = track.request.block_hashes
        known = len(hashes) * self.geometry.hash_block_size
        tokens = min(computed, known)
        if table is None or tokens < self.due[track.request.request_id]:
            return []
        state, content_id = self.content_id(track)
        if state == PENDING:
            return []
        whole = []
        for space in self._positional:
            begin, size = track.stored[space.group], space.tokens_per_page
            end = tokens // size
            if end <= begin:
                continue
            track.stored[space.group] = end
            if content_id is not None and state == USABLE:
                stride = size // self.geometry.hash_block_size
                keys = joined_keys(hashes[begin * stride:end * stride], stride, content_id,
                                   end - begin)
                there = without_null(space.group, keys, table[space.group][begin:end], begin)
                if there is not None:
                    whole.append(there)
        self._set_due(track)
        return whole

    def boundary_pages(self, track: Track,
                       offers: Sequence[Tuple[int, int, int]]) -> List[Tuple[Pages, int]]:
        """States that vLLM offers as (group, block, tokens), with which page they are: whole at
        this step's end."""
        hashes, hash_size = track.request.block_hashes, self.geometry.hash_block_size
        state, content_id = self.content_id(track)
        if state != USABLE or content_id is None or track.mixed:
            return []
        found = []
        for group, block, tokens in offers:
            space = next((s for s in self.geometry.spaces if s.group == group), None)
            if space is None or block == NULL_BLOCK or tokens % space.tokens_per_page or \
                    not 0 < tokens // hash_size <= len(hashes):
                continue
            last = tokens // hash_size
            keys = joined_keys(hashes[last - 1:last], 1, content_id, 1)
            found.append((Pages(group, keys.bytes, keys.key_bytes, [block]),
                          tokens // space.tokens_per_page - 1))
        return found


def offers_still_there(offers: Sequence[Tuple[int, int, int]], touched: Set[int],
                       table: Optional[Sequence[Sequence[int]]]
                       ) -> List[Tuple[int, int, int]]:
    """Those offers (group, block, tokens) whose block this step gives to nobody else. vLLM doesn't
    hold an offered block: once it has left its request's table it may be anybody's."""
    return [offer for offer in offers if offer[1] not in touched or
            (table is not None and offer[1] in table[offer[0]])]


def without_null(group: int, keys: Keys, blocks: Sequence[int],
                 begin: int) -> Optional[Tuple[Pages, Sequence[int]]]:
    """Those pages from `begin` on whose block exists, and which they are; None if none does."""
    if NULL_BLOCK not in blocks:
        if len(blocks) != keys.count or not blocks:
            return None
        return Pages(group, keys.bytes, keys.key_bytes, blocks), range(begin, begin + keys.count)
    there = [i for i, block in enumerate(blocks[:keys.count]) if block != NULL_BLOCK]
    if not there:
        return None
    return Pages(group, b"".join(map(keys.one, there)), keys.key_bytes,
                 [blocks[i] for i in there]), [begin + i for i in there]
