# SPDX-License-Identifier: Apache-2.0
"""What the connector has to know of a KV cache group, from its KVCacheSpec.

Specs are told apart by the names of their classes, so that this needs no vLLM and no release in
particular; a kind that isn't known is refused rather than guessed.
"""
from __future__ import annotations

import dataclasses
from math import gcd
from typing import Any, Iterable, Optional, Tuple

from ..errors import Misuse
from ..plugin.fingerprint import digest_of
from ..status import Policy

# The first class of a spec's line that is here decides.
KINDS = {
    "SlidingWindowMLASpec": "window", "MLAAttentionSpec": "full", "SinkFullAttentionSpec": "full",
    "FullAttentionSpec": "full", "ChunkedLocalAttentionSpec": "chunk",
    "SlidingWindowSpec": "window", "MambaSpec": "state",
}
SPEC_KINDS = {
    "SlidingWindowMLASpec": "sliding_window_mla", "MLAAttentionSpec": "mla_attention",
    "SinkFullAttentionSpec": "sink_full_attention", "FullAttentionSpec": "full_attention",
    "ChunkedLocalAttentionSpec": "chunked_local_attention",
    "SlidingWindowSpec": "sliding_window", "MambaSpec": "mamba",
}
POOLS = {"full": "kv", "window": "swa", "chunk": "chunk", "state": "mamba", "none": "kv"}
MLA = {"MLAAttentionSpec", "SlidingWindowMLASpec"}
# Sizes of the engine, not of its pages.
LEFT_OUT = {"num_speculative_blocks", "num_prefill_checkpoint_blocks", "is_index_group_leader",
            "non_causal_multi_token_decode"}


@dataclasses.dataclass(frozen=True)
class Group:
    """One KV cache group."""

    index: int
    kind: str  # "full", "window", "chunk", "state" or "none"
    pool: str  # name of its kind of data in the daemon
    block_size: int  # tokens, on one rank
    sharded: bool  # decode context parallelism deals its tokens to ranks
    reach: int  # tokens that the next one still looks back to, of "window" and "chunk"
    replicated: bool  # tp ranks hold the same bytes, without decode context parallelism
    dtype: str  # of the cache
    draft: bool
    digest: str  # of all fields of its spec
    spec_kind: str  # vLLM's own word, in KV events
    window: Optional[int]  # tokens, of "window"

    def tokens_per_page(self, dcp: int) -> int:
        """Tokens of one block over all decode-context-parallel ranks."""
        return self.block_size * (dcp if self.sharded else 1)

    def policy(self, dcp: int) -> Tuple[Policy, int]:
        """Which pages must be there for a prefix that ends at a page."""
        if self.kind in ("full", "none"):
            return Policy.ALL_PAGES, 0
        if self.kind == "state":
            return Policy.TRAILING_PAGES, 1
        return Policy.TRAILING_PAGES, max(1, -(-self.reach // self.tokens_per_page(dcp)))


def _line(spec: Any) -> Iterable[str]:
    return [cls.__name__ for cls in type(spec).__mro__]


def _known_class(spec: Any) -> Optional[str]:
    return next((name for name in _line(spec) if name in KINDS), None)


def _kind(index: int, group: Any, spec: Any) -> str:
    if getattr(group, "host_resident", False):
        raise Misuse(f"KV cache group {index} lies in host memory (HiSparse), which the daemon "
                     "doesn't serve; turn HiSparse off or leave the connector out")
    # A layer that isn't cacheable makes its group one that isn't: vLLM fills it anew.
    if not getattr(group, "enable_kv_transfer", True) or not getattr(
            group.kv_cache_spec, "prefix_cacheable", getattr(spec, "prefix_cacheable", True)):
        return "none"
    known = _known_class(spec)
    if known is None:
        raise Misuse(f"KV cache group {index} is of kind {type(spec).__name__}, which isn't known "
                     f"here; known are {', '.join(sorted(KINDS))}")
    kind = KINDS[known]
    mode = getattr(spec, "mamba_cache_mode", "align")
    if kind == "state" and mode not in ("align", "all"):
        raise Misuse(f"KV cache group {index} keeps states without positions (mamba cache mode "
                     f"{mode}), so none could be found again; start with --enable-prefix-caching "
                     "--mamba-cache-mode align")
    return kind


def _reach(kind: str, spec: Any) -> int:
    if kind == "window":
        return max(0, int(spec.sliding_window) - 1 + int(getattr(spec, "extra_retained_tokens", 0)))
    if kind == "chunk":  # from where the next token's chunk began to the end of a page, at most
        chunk = int(spec.attention_chunk_size)
        return chunk - gcd(chunk, int(spec.block_size))
    return 0


def _dtype(spec: Any) -> str:
    found = getattr(spec, "dtype", None) or getattr(spec, "dtypes", None)
    given = found if isinstance(found, (list, tuple)) else (found,)
    return "/".join(str(dtype).replace("torch.", "") for dtype in given)


def is_same_on_all_ranks(spec: Any) -> bool:
    """Whether tp ranks hold the same bytes, context parallelism aside."""
    spec = next(iter(getattr(spec, "kv_cache_specs", {}).values()), spec)
    shards = getattr(spec, "max_tp_shards", None)
    return bool(MLA & set(_line(spec)) or shards == 1 or getattr(spec, "tp_replicated", False))


def group_of(index: int, group: Any) -> Group:
    """From a KVCacheGroupSpec. Raises Misuse for one that can't be served."""
    spec = group.kv_cache_spec
    layers = list(getattr(spec, "kv_cache_specs", {}).values()) or [spec]
    kinds = {_kind(index, group, layer) for layer in layers}
    if len(kinds) > 1:
        raise Misuse(f"KV cache group {index} mixes {' and '.join(sorted(kinds))} layers, whose "
                     "pages are found by different rules; leave the connector out for this model")
    kind, first = kinds.pop(), layers[0]
    role = getattr(first, "cache_role", None)
    indexer = getattr(role, "value", role) == "indexer"
    # Of layers that differ in one group the scheduler is told only the first; the parts' bytes say
    # the rest.
    described = {field.name: getattr(first, field.name) for field in dataclasses.fields(first)
                 if field.name not in LEFT_OUT}
    return Group(
        index=index, kind=kind, pool="indexer" if indexer else POOLS[kind],
        block_size=int(spec.block_size),
        sharded=bool(getattr(first, "dcp_sharded", kind != "state")),
        reach=_reach(kind, first), replicated=is_same_on_all_ranks(spec), dtype=_dtype(first),
        draft=bool(getattr(group, "is_eagle_group", False)),
        digest=digest_of([type(first).__name__, described]),
        spec_kind=SPEC_KINDS.get(_known_class(first) or "", "unknown"),
        window=int(first.sliding_window) if kind == "window" else None)
