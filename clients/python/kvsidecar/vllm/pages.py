# SPDX-License-Identifier: Apache-2.0
"""Block arithmetic: from a request's block hashes and token counts to keys and pages, per group.
Pure; needs no vLLM. Pages of a group are counted from the prompt's beginning."""
from __future__ import annotations

from math import lcm
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..status import Policy
from .adapters import fold
from .identity import GroupSpace


class Keys(NamedTuple):
    """Keys of consecutive pages, end to end."""

    bytes: bytes
    key_bytes: int  # 0: there are none
    count: int

    def part(self, begin: int, end: int) -> bytes:
        return self.bytes[begin * self.key_bytes:end * self.key_bytes]

    def one(self, index: int) -> bytes:
        return self.part(index, index + 1)


class Pages(NamedTuple):
    """Pages of one KV cache group and where the engine has them."""

    group: int  # index among kv_cache_config.kv_cache_groups
    keys: bytes  # end to end
    key_bytes: int
    blocks: Sequence[int]  # one block number a key


Page = Tuple[int, bytes]  # group and key
NO_KEYS = Keys(b"", 0, 0)


def joined_keys(hashes: Sequence[bytes], stride: int, content_id: bytes, pages: int) -> Keys:
    """The keys of the first `pages` pages whose page is `stride` block hashes long: a hash names
    the whole prefix before its end, so the last one of a page is the page's."""
    if pages <= 0:
        return NO_KEYS
    chosen = hashes[:pages] if stride == 1 else hashes[stride - 1:pages * stride:stride]
    if content_id:
        chosen = fold(chosen, content_id)
    if pages == 1:
        return Keys(chosen[0], len(chosen[0]), 1)
    return Keys(b"".join(chosen), len(chosen[0]), len(chosen))


class Geometry:
    """Groups by the tokens of a page: keys of one size are looked up together."""

    def __init__(self, spaces: Sequence[GroupSpace], hash_block_size: int,
                 alignment: Optional[int] = None) -> None:
        """hash_block_size: tokens of one block hash. alignment: tokens of which vLLM wants a hit to
        be a multiple; None: the least that all groups can."""
        self.spaces = [space for space in spaces if space.kind != "none"]
        self.hash_block_size = hash_block_size
        self.page_tokens = {space.group: space.tokens_per_page for space in spaces}
        sizes = sorted({space.tokens_per_page for space in self.spaces}) or [hash_block_size]
        self.by_size: Dict[int, List[GroupSpace]] = {
            size: [s for s in self.spaces if s.tokens_per_page == size] for size in sizes}
        self.alignment = lcm(alignment or 1, *sizes)
        self.state_groups = {s.group for s in self.spaces if s.kind == "state"}

    def keys(self, hashes: Sequence[bytes], size: int, content_id: bytes, tokens: int) -> Keys:
        """Of all pages of `size` tokens within the first `tokens` tokens that have a hash."""
        stride = size // self.hash_block_size
        return joined_keys(hashes, stride, content_id,
                           min(tokens // size, len(hashes) // stride))

    def usable_tokens(self, prompt_tokens: int, hashes: int) -> int:
        """The longest prefix worth asking for: the last token is always computed."""
        most = min(prompt_tokens - 1, hashes * self.hash_block_size)
        return most // self.alignment * self.alignment

    def needed(self, space: GroupSpace, local: int, tokens: int) -> Tuple[int, int]:
        """Pages [begin, end) of a group that a hit of `tokens` tokens has to load when the first
        `local` ones are in the engine's blocks."""
        size = space.tokens_per_page
        end = tokens // size
        if space.policy == Policy.ALL_PAGES:
            return local // size, end
        begin = max(end - space.trailing, 0)
        # The state of the last page alone restores a recurrent group, wherever its pages before it
        # are; a window reaches into what is there already.
        return (begin, end) if space.kind == "state" else (max(begin, local // size), end)


def lengths(restorable: Dict[int, Tuple[int, Any]], alignment: int, local: int,
            limit: int) -> int:
    """The longest restorable prefix in tokens, above `local` and at most `limit`, or 0. restorable:
    per page size the first token that was asked about and whether [i] the prefix that ends with the
    i-th page asked about can be restored."""
    tokens = limit // alignment * alignment
    while tokens > local:
        if all(_can_end(size, first, bits, tokens) for size, (first, bits) in restorable.items()):
            return tokens
        tokens -= alignment
    return 0


def _can_end(size: int, first: int, bits: Any, tokens: int) -> bool:
    index = (tokens - first) // size - 1
    return 0 <= index < len(bits) and bool(bits[index])
