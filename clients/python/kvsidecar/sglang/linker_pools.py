# SPDX-License-Identifier: Apache-2.0
"""The device pools of an engine as the daemon sees them: which runs a page is made of, in the order
of the model's layers, and how many of them a layer needs.

SGLang puts most kinds of model together by itself (DevicePoolEntry); what it leaves to the linker,
plain attention and attention with a window or a state beside it, is put together here from the same
pieces. A kind that isn't known is refused rather than guessed.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Set, Tuple

from ..errors import Misuse

PLAIN_ATTENTION = {"MHATokenToKVPool": False, "MLATokenToKVPool": True}  # whether MLA
FULL_LAYERS = "full_attention_layer_id_mapping"
SCALES = ("k_scale_buffer", "v_scale_buffer", "native_k_scale_buffer")


class Piece(NamedTuple):
    """One run of every page: `base + block * stride` of a tensor's storage. Bytes."""

    tensor: Any
    base: int
    stride: int
    length: int


@dataclass(frozen=True)
class DevicePool:
    name: str
    source: str  # the pool whose transfers carry its keys and indices
    slots: int  # indices of a page, one after the other; a block is index / slots
    blocks: int
    replicated: bool  # all tp ranks hold the same bytes
    pieces: Tuple[Piece, ...]  # in the order of layers
    layer_ends: Tuple[int, ...]  # [layer]: so many runs must be in place before it may be read
    entry: Any  # SGLang's own

    @property
    def part_bytes(self) -> int:
        """Bytes of this rank's part of a page."""
        return sum(piece.length for piece in self.pieces)

    def translated(self, indices: Any) -> Any:
        """Indices of this pool from those of its source."""
        return self.entry.translate_indices(indices)


def assembled(kvcache: Any, params: Any, components: Set[Any]) -> Any:
    """SGLang's DevicePoolGroup of this engine. Misuse, with SGLang's own reason, for a model that
    neither of us can serve."""
    from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import (
        resolve_hybrid_device_pool_group)
    try:
        return resolve_hybrid_device_pool_group(
            kvcache=kvcache, page_size=params.page_size, params=params, components=components)
    except (ValueError, AssertionError) as refused:
        names = {getattr(component, "name", str(component)) for component in components}
        return _Assembly(kvcache, params, str(refused)).group(names)


class _Assembly:
    """Of the models for which SGLang has no group of device pools."""

    def __init__(self, kvcache: Any, params: Any, reason: str) -> None:
        self._kvcache, self._params, self._reason = kvcache, params, reason
        self._start = int(getattr(kvcache, "start_layer", 0) or 0)

    def group(self, components: Set[str]) -> Any:
        from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolGroup
        for drafts in ("mtp_draft_device_pools", "sidecar_draft_device_pools"):
            if getattr(self._params, drafts, ()):
                raise self._refusal("its draft model's KV cache isn't known here; start it without "
                                    "speculative decoding")
        kvcache, replicated = self._kvcache, False
        if components == {"FULL"}:
            entries, replicated = [self._attention("KV", kvcache, None)], self._is_mla(kvcache)
        elif components == {"FULL", "SWA"} and hasattr(kvcache, "swa_kv_pool"):
            entries = [
                self._attention("KV", kvcache.full_kv_pool, self._local(False)),
                self._attention("SWA", kvcache.swa_kv_pool, self._local(True))]
        elif components == {"FULL", "MAMBA"} and hasattr(kvcache, FULL_LAYERS):
            mapping = {layer - self._start: index
                       for layer, index in getattr(kvcache, FULL_LAYERS).items()}
            entries = [self._attention("KV", kvcache.full_kv_pool, mapping), self._state()]
        else:
            raise self._refusal(f"tree components {', '.join(sorted(components))} with "
                                f"{type(kvcache).__name__} aren't known here")
        layers = 1 + max(layer for entry in entries for layer in entry.layer_mapping)
        return DevicePoolGroup(entries, layers, self._params.page_size, rank_replicated=replicated)

    def _refusal(self, why: str) -> Misuse:
        return Misuse(f"unified cache external linker: this model can't be served by device pools: "
                      f"{why} (SGLang: {self._reason}); use --enable-hierarchical-cache with "
                      "kvsidecar.sglang.HiCache instead")

    def _is_mla(self, pool: Any) -> bool:
        mla = PLAIN_ATTENTION.get(type(pool).__name__)
        if mla is None:
            raise self._refusal(f"its KV pool is a {type(pool).__name__}")
        if any(getattr(pool, scale, None) is not None for scale in SCALES):
            raise self._refusal("its KV cache has scales beside it")
        return mla

    def _local(self, window: bool) -> Dict[int, int]:
        """Layers of this stage to buffers, of the pool with or without a window."""
        return {layer - self._start: index for layer, (index, windowed)
                in self._kvcache.layers_mapping.items() if windowed == window}

    def _attention(self, name: str, pool: Any, mapping: Any) -> Any:
        if self._is_mla(pool):
            buffers = [list(pool.kv_buffer)]
        else:
            buffers = [list(pool.k_buffer), list(pool.v_buffer)]
        layers = mapping or {layer: layer for layer in range(len(buffers[0]))}
        return self._entry(name, pool, buffers, layers, self._params.page_size, False)

    def _state(self) -> Any:
        requests = self._params.req_to_token_pool
        beside = [name for name in ("mamba_ckpt_pool", "short_conv_pool", "ngram_pool")
                  if getattr(getattr(requests, name, None), "enabled",
                             getattr(requests, name, None) is not None)]
        if beside:
            raise self._refusal(f"it keeps states in {', '.join(beside)} too")
        cache = requests.mamba_pool.mamba_cache
        states = [[state[layer] for layer in range(state.shape[0])]
                  for state in (cache.temporal, *cache.conv) if state.numel()]
        mapping = {layer - self._start: index for layer, index in requests.mamba_map.items()}
        return self._entry("MAMBA", requests.mamba_pool, states, mapping, 1, True)

    @staticmethod
    def _entry(name: str, pool: Any, components: List[Any], mapping: Dict[int, int], page_size: int,
               rows_are_pages: bool) -> Any:
        from sglang.srt.mem_cache.hicache_storage import PoolName
        from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolEntry
        return DevicePoolEntry(
            name=PoolName[name], indices_from_pool=PoolName[name], device_pool=pool,
            components=components, layer_mapping=mapping, page_size=page_size,
            rows_are_pages=rows_are_pages)


def device_pools(group: Any) -> Dict[str, DevicePool]:
    """By name. The tensors must lie where they will stay. Misuse for memory that isn't laid out in
    pages."""
    return {str(entry.name): _pool(entry, group) for entry in group.entries}


def _pool(entry: Any, group: Any) -> DevicePool:
    taken: Set[Tuple[int, int]] = set()
    pieces: List[Piece] = []
    ends: List[int] = []
    for layer in range(group.num_layers):
        mapped = entry.layer_mapping.get(layer, ())
        for index in (mapped,) if isinstance(mapped, int) else mapped:
            for component in range(len(entry.components)):
                if (component, index) not in taken:
                    taken.add((component, index))
                    pieces.append(_piece(entry, component, index))
        ends.append(len(pieces))
    rest = [(component, index) for component, buffers in enumerate(entry.components)
            for index in range(len(buffers)) if (component, index) not in taken]
    pieces += [_piece(entry, *where) for where in rest]  # no layer waits for them but the last
    ends[-1] = len(pieces)
    return DevicePool(
        name=str(entry.name), source=str(entry.indices_from_pool), slots=int(entry.page_size),
        blocks=min(_blocks(entry, component, index)
                   for component, buffers in enumerate(entry.components)
                   for index in range(len(buffers))),
        replicated=bool(group.rank_replicated or
                        (str(entry.name) == "kv" and _says_mla(entry.device_pool))),
        pieces=tuple(pieces), layer_ends=tuple(ends), entry=entry)


def _says_mla(pool: Any) -> bool:
    return any(cls.__name__ == "MLATokenToKVPool" for cls in type(pool).__mro__)


def _row(buffer: Any) -> int:
    return int(buffer.nbytes) // int(buffer.shape[0])


def _blocks(entry: Any, component: int, index: int) -> int:
    buffer = entry.components[component][index]
    return int(buffer.shape[0]) // (_length(entry, component, index) // _row(buffer))


def _length(entry: Any, component: int, index: int) -> int:
    return int(entry.buffer_meta[component][index][2])


def _piece(entry: Any, component: int, index: int) -> Piece:
    buffer = entry.components[component][index]
    stride = int(buffer.stride(0)) * int(buffer.element_size())
    length = _length(entry, component, index)
    rows = length // _row(buffer)
    if not buffer[0].is_contiguous() or (rows > 1 and stride != _row(buffer)):
        raise Misuse(f"pool {entry.name}: buffer {index} of shape {tuple(buffer.shape)} and "
                     f"strides {tuple(buffer.stride())} doesn't keep a page's {rows} rows "
                     "together; choose a KV cache layout that does")
    return Piece(buffer, int(buffer.storage_offset()) * int(buffer.element_size()), stride * rows,
                 length)


def layout_text(pool: DevicePool) -> str:
    """How a part's bytes are arranged, for the namespace."""
    lengths = "+".join(str(piece.length) for piece in pool.pieces)
    return f"linker, by layer: {lengths}"
