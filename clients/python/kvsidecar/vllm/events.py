# SPDX-License-Identifier: Apache-2.0
"""KV events about pages in the daemon, through the engine's own publisher (take_events).

Only the scheduler uses it. What is said is a hint for routers: a page may be evicted later without
a word. A reset needs no event of its own, since vLLM tells that all blocks are cleared.
"""
from __future__ import annotations

from math import gcd
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .adapters import fold
from .identity import GroupSpace
from .pages import Page
from .settings import Settings

MEDIUM = "CPU"  # of vLLM's words: the node's host memory
EVENTS_MAX = 65_536  # between two steps; what is beyond is not said
TOLD_MAX = 1 << 18  # pages of which it is known that they were told; the oldest are told again


class Events:
    def __init__(self, vllm_config: Any, settings: Settings, spaces: Sequence[GroupSpace],
                 hash_block_size: Optional[int] = None) -> None:
        """Does nothing at all (active is False) where settings.events is off or vLLM's own events
        are. hash_block_size: tokens of one block hash; None: what all groups have in common."""
        wanted = getattr(vllm_config, "kv_events_config", None)
        self.active = settings.events == "engine" and wanted is not None and bool(
            wanted.enable_kv_cache_events)
        self._spaces = {space.group: space for space in spaces}
        self._hash_tokens = hash_block_size or gcd(*(space.tokens_per_page for space in spaces))
        self._events: List[Any] = []
        self._told: Dict[Tuple[int, bytes], None] = {}

    def stored(self, request: Any, group: int, pages: Sequence[int]) -> None:
        """Pages (ordinals within the prompt, of this group's size) of a request are complete in the
        daemon. `request` is vLLM's Request; what is needed is taken from it at once. A page that
        was told isn't told again: requests that begin alike store the same ones."""
        if not self.active or len(self._events) >= EVENTS_MAX:
            return
        for first, end in _runs([page for page in pages if self._is_new(request, group, page)]):
            if len(self._events) >= EVENTS_MAX:
                return
            self._events.append(self._stored(request, self._spaces[group], first, end))

    def _is_new(self, request: Any, group: int, page: int) -> bool:
        stride = self._spaces[group].tokens_per_page // self._hash_tokens
        named = group, request.block_hashes[(page + 1) * stride - 1]
        if named in self._told:
            return False
        self._told[named] = None
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return True

    def forget(self) -> None:
        """After a reset: pages of before are nobody's to find, whatever comes is new."""
        self._told.clear()

    def gone(self, request: Any, pages: Sequence[Page], content_id: bytes = b"") -> None:
        """Pages of a request that couldn't be loaded. Whichever of them are merely late are told
        again when they are stored again, which costs nothing where the daemon has them."""
        if not self.active or not pages:
            return
        keys = {group: {key for other, key in pages if other == group} for group, _ in pages}
        for group, missed in keys.items():
            hashes = [found for found, key in zip(
                request.block_hashes, fold(request.block_hashes, content_id)) if key in missed]
            if hashes:
                self._removed(group, hashes)

    def _removed(self, group: int, hashes: Sequence[Any]) -> None:
        for found in hashes:
            self._told.pop((group, found), None)
        if len(self._events) >= EVENTS_MAX:
            return
        from vllm.distributed.kv_events import BlockRemoved
        from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
        self._events.append(_made(BlockRemoved, dict(
            block_hashes=[maybe_convert_block_hash(found) for found in hashes],
            medium=MEDIUM, group_idx=group, locality="LOCAL")))

    def take(self) -> List[Any]:
        """The events since the last take, as vLLM's BlockStored and BlockRemoved."""
        if not self._events:
            return []
        taken, self._events = self._events, []
        return taken

    def _stored(self, request: Any, space: GroupSpace, first: int, end: int) -> Any:
        from vllm.distributed.kv_events import BlockStored
        from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
        size = space.tokens_per_page
        hashes = self._hashes(request, size, first, end)
        adapter = request.lora_request
        return _made(BlockStored, dict(
            block_hashes=[maybe_convert_block_hash(found) for found in hashes[1:]],
            parent_block_hash=None if hashes[0] is None else maybe_convert_block_hash(hashes[0]),
            token_ids=list(request.all_token_ids[first * size:end * size]), block_size=size,
            lora_id=None if adapter is None else adapter.lora_int_id,
            lora_name=None if adapter is None else adapter.lora_name, medium=MEDIUM,
            extra_keys=_extra_keys(request, size, first, end), group_idx=space.group,
            kv_cache_spec_kind=space.spec_kind, kv_cache_spec_sliding_window=space.window,
            locality="LOCAL", session_id=getattr(request, "session_id", None)))

    def _hashes(self, request: Any, size: int, first: int, end: int) -> List[Any]:
        """The hash before the first page (None at the prompt's beginning) and those of the pages. A
        page's is that of the prefix up to its end."""
        stride, hashes = size // self._hash_tokens, request.block_hashes
        return [None if first == 0 else hashes[first * stride - 1]] + [
            hashes[(page + 1) * stride - 1] for page in range(first, end)]


def _runs(pages: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """[first, end) of the neighbours among them."""
    ordered = sorted(set(pages))
    first = 0
    for at in range(1, len(ordered) + 1):
        if at == len(ordered) or ordered[at] != ordered[at - 1] + 1:
            yield ordered[first], ordered[at - 1] + 1
            first = at


def _extra_keys(request: Any, size: int, first: int, end: int) -> Any:
    """What went into the hashes beside the tokens, one entry a page, as vLLM publishes it."""
    from vllm.v1.core import kv_cache_utils
    found, media = [], 0
    for page in range(first, end):
        keys, media = kv_cache_utils.generate_block_hash_extra_keys(
            request, page * size, (page + 1) * size, media)
        found.append(keys)
    publish = getattr(kv_cache_utils, "to_event_extra_keys", None)  # hashes are tagged since 0.30
    return found if publish is None else publish(found)


def _made(event: Any, values: Dict[str, Any]) -> Any:
    """With those of the values that the installed release knows."""
    return event(**{name: value for name, value in values.items()
                    if name in event.__struct_fields__})
