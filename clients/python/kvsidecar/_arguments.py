# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls as structs of the C ABI. What is returned beside a struct keeps alive what it
points to."""
from __future__ import annotations

import array
import itertools
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from . import _structs
from ._buffers import Numbers, Packed, PackedKeys, pack_numbers
from .errors import Misuse
from .identity import Coordinate, NamespaceFields, encode_identity
from .memory import AnyMemory, Layout, Namespace
from .status import Policy


class Pool(NamedTuple):
    """A pool of a lookup, with its hit policy."""

    namespace: Namespace
    policy: Policy = Policy.ALL_PAGES
    pages: int = 0  # n of TRAILING_PAGES


class Pieces(NamedTuple):
    """Explicit runs instead of blocks of a layout: for all items' runs, end to end in the part's
    byte order, a region with offset and length; `counts` of them an item, 1 to 64."""

    regions: Sequence[AnyMemory]
    offsets: Sequence[int]
    lengths: Sequence[int]
    counts: Numbers


Where = Union[Layout, Pieces]


def coordinate_struct(coordinate: Optional[Coordinate]) -> _structs.Coordinate:
    tp, pp, cp = coordinate or (0, 0, 0)
    return _structs.Coordinate(tp, pp, cp, 0)


def keys_struct(keys: PackedKeys) -> _structs.Keys:
    return _structs.Keys(keys.address, keys.key_bytes, keys.length)


def fields_struct(fields: NamespaceFields) -> Tuple[_structs.NamespaceFields, Any]:
    encode_identity(fields)  # misuse is told before anything is sent
    parts = (_structs.Part * len(fields.parts))(*(
        _structs.Part(coordinate_struct(part[0]), part[1]) for part in fields.parts))
    pairs = [(name.encode(), value.encode()) for name, value in fields.extra]
    extras = (_structs.Extra * len(pairs))(*(
        _structs.Extra(name, value, len(value)) for name, value in pairs))
    texts = {name: value.encode() for name in (
        "model", "revision", "dtype", "quantization", "layout", "pool", "draft_model", "adapter",
        "tenant_salt", "key_scheme") if (value := getattr(fields, name)) is not None}
    return _structs.sized(
        _structs.NamespaceFields, tokens_per_page=fields.tokens_per_page, tp_size=fields.tp_size,
        pp_size=fields.pp_size, cp_size=fields.cp_size, slice=fields.slice, slices=fields.slices,
        parts=parts, part_count=len(parts), extras=extras, extra_count=len(extras),
        **texts), (parts, extras)


def lookup_struct(keys: PackedKeys, pools: Union[Namespace, Sequence[Union[Namespace, Pool]]],
                  ticket: int, lease_s: float, prefetch: bool,
                  timeout_ns: int) -> Tuple[_structs.LookupArgs, Any]:
    if isinstance(pools, Namespace):
        pools = (pools,)
    asked = [Pool(pool) if isinstance(pool, Namespace) else pool for pool in pools]
    if not asked:
        raise Misuse("pools is empty; name at least one namespace")
    policies = (_structs.PoolPolicy * len(asked))(*(
        _structs.PoolPolicy(pool.namespace.id, pool.policy, pool.pages) for pool in asked))
    return _structs.sized(
        _structs.LookupArgs, keys=keys_struct(keys), pools=policies, pool_count=len(asked),
        ticket=ticket, lease_ms=round(lease_s * 1e3), prefetch=int(prefetch),
        timeout_ns=timeout_ns), policies


def _one_each(packed: Packed, items: int, what: str) -> Packed:
    if packed.length != items:
        raise Misuse(f"{what} has {packed.length} numbers for {items} keys; give one each")
    return packed


def _pieces_struct(pieces: Pieces, items: int) -> Tuple[_structs.Items, Any]:
    counts = _one_each(pack_numbers(pieces.counts, 4, "counts"), items, "counts")
    if not len(pieces.regions) == len(pieces.offsets) == len(pieces.lengths) == \
            sum(memoryview(counts.owner)):
        raise Misuse("regions, offsets, lengths and the sum of counts differ; give one each a run")
    flat = array.array("Q", itertools.chain.from_iterable(zip(
        (region.id for region in pieces.regions), pieces.offsets, pieces.lengths)))
    return _structs.Items(runs=flat.buffer_info()[0], run_counts=counts.address), \
        (flat, counts.owner, tuple(pieces.regions))


def items_struct(where: Where, blocks: Optional[Numbers],
                 items: int) -> Tuple[_structs.Items, Any]:
    if isinstance(where, Pieces):
        if blocks is not None:
            raise Misuse("blocks belong to a layout, not to pieces")
        return _pieces_struct(where, items)
    if blocks is None:
        raise Misuse("blocks is missing; give one block number a key")
    numbers = _one_each(pack_numbers(blocks, 4, "blocks"), items, "blocks")
    return _structs.Items(layout=where.id, blocks=numbers.address), (where, numbers.owner)


def add_descriptions(args: _structs.TransferArgs, blobs: Sequence[bytes], items: int) -> Any:
    if len(blobs) != items:
        raise Misuse(f"descriptions has {len(blobs)} entries for {items} keys; give one each")
    ends = array.array("I", itertools.accumulate(map(len, blobs)))
    joined = b"".join(blobs)
    args.descriptions, args.description_ends = joined, ends.buffer_info()[0]
    return joined, ends


def layout_runs(runs: Sequence[Any]) -> Any:
    return (_structs.LayoutRun * len(runs))(*(
        _structs.LayoutRun(run.region.id, run.base, run.block_stride, run.length) for run in runs))
