# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of each KV cache group lie, from the tensors' own strides and, where vLLM gives
them, the address facts of kv_cache_config. A block is opaque bytes: which bytes, never what they
mean. Imports neither torch nor vLLM: tensors are asked for shape, stride, element_size,
storage_offset and untyped_storage."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from ..errors import Misuse

RUNS_OF_A_PAGE_MAX = 64  # of one layer; more would cost more than it saves


class LayerRun(NamedTuple):
    """One contiguous piece of every block: at base + block * block_stride of a storage. Bytes."""

    storage: int  # address of the storage's first byte, its name among the others
    base: int
    block_stride: int
    length: int


def _describe(layer: str, tensor: Any) -> str:
    return (f"layer {layer}: shape {tuple(tensor.shape)}, strides {tuple(tensor.stride())} of "
            f"{tensor.element_size()} bytes, offset {tensor.storage_offset()}")


def pieces(shape: Sequence[int], strides: Sequence[int]) -> List[Tuple[int, int]]:
    """(offset, length) of the contiguous pieces that a view covers, in the order of its dimensions,
    outermost first. Strides and results in bytes; the last dimension is one of bytes."""
    axes = [(stride, size) for size, stride in zip(shape, strides) if size != 1]
    length = 1
    # The densest dimensions first: what joins up is one piece, in whatever order it is named.
    rest = sorted(axes)
    while rest and rest[0][0] == length:
        length *= rest.pop(0)[1]
    offsets = [0]
    for stride, size in axes:
        if (stride, size) in rest:
            offsets = [offset + i * stride for offset in offsets for i in range(size)]
    return [(offset, length) for offset in offsets]


def tensor_runs(layer: str, tensor: Any, blocks: int) -> List[LayerRun]:
    """The pieces of a block of one layer. The first dimension counts blocks, or equal parts of
    them. Misuse where that can't be so."""
    item = tensor.element_size()
    shape, strides = list(tensor.shape), [stride * item for stride in tensor.stride()]
    base = tensor.storage_offset() * item
    storage = tensor.untyped_storage().data_ptr()
    if not shape or shape[0] % blocks or strides[0] <= 0:
        raise Misuse(f"{_describe(layer, tensor)} doesn't count {blocks} blocks in its first "
                     "dimension; choose a KV cache layout that does (VLLM_KV_CACHE_LAYOUT)")
    split = shape[0] // blocks
    found = pieces([split] + shape[1:] + [item], strides + [1])
    stride = strides[0] * split
    if len(found) > RUNS_OF_A_PAGE_MAX or found[0][1] > stride:
        raise Misuse(f"{_describe(layer, tensor)} scatters a block over {len(found)} pieces; "
                     "choose a KV cache layout with whole blocks (VLLM_KV_CACHE_LAYOUT)")
    return [LayerRun(storage, base + offset, stride, length) for offset, length in found]


def _states(layer: str, tensors: Sequence[Any], blocks: int) -> List[LayerRun]:
    """A layer whose cache is a list of views into one page, as mamba's was before 0.30."""
    return [run for i, tensor in enumerate(tensors)
            for run in tensor_runs(f"{layer}[{i}]", tensor, blocks)]


def _planned(kv_cache_config: Any) -> Dict[str, Tuple[int, int]]:
    """Per layer (base, block stride) as vLLM 0.30 and later lay it out; else nothing."""
    facts: Dict[str, Tuple[int, int]] = {}
    for tensor in kv_cache_config.kv_cache_tensors:
        for index, layer in enumerate(getattr(tensor, "layers", ())):
            facts[layer] = (tensor.offset + index * tensor.layer_stride, tensor.block_stride)
    return facts


def group_runs(kv_cache_config: Any, kv_caches: Dict[str, Any], group: int) -> List[LayerRun]:
    """The runs of a block of one group: its layers in the group's order. Misuse with shapes and
    strides for a layout that can't be mapped."""
    blocks = kv_cache_config.num_blocks
    planned = _planned(kv_cache_config)
    runs: List[LayerRun] = []
    for layer in kv_cache_config.kv_cache_groups[group].layer_names:
        tensor = kv_caches.get(layer)
        if tensor is None:
            raise Misuse(f"group {group} has layer {layer}, but no KV cache of that name was "
                         f"registered; there are {sorted(kv_caches)}")
        if isinstance(tensor, (list, tuple)):
            runs += _states(layer, tensor, blocks)
            continue
        fact = planned.get(layer)
        if fact is not None and len(tensor.shape) == 1:
            spec = layer_spec(kv_cache_config.kv_cache_groups[group].kv_cache_spec, layer)
            runs.append(LayerRun(tensor.untyped_storage().data_ptr(), fact[0], fact[1],
                                 spec.page_size_bytes))
            continue
        found = tensor_runs(layer, tensor, blocks)
        if fact is not None and (found[0].base, found[0].block_stride) != fact:
            raise Misuse(f"{_describe(layer, tensor)} begins at byte {found[0].base} with blocks "
                         f"{found[0].block_stride} apart, kv_cache_config says {fact[0]} and "
                         f"{fact[1]}; this release of vLLM lays memory out in a way that isn't "
                         "known here")
        runs += found
    return joined(runs)


def joined(runs: Iterable[LayerRun]) -> List[LayerRun]:
    """Neighbours of one storage and stride become one run, as in layouts with all layers of a block
    side by side."""
    result: List[LayerRun] = []
    for run in runs:
        last = result[-1] if result else None
        if last and (last.storage, last.block_stride) == (run.storage, run.block_stride) and \
                last.base + last.length == run.base and \
                last.length + run.length <= run.block_stride:
            result[-1] = last._replace(length=last.length + run.length)
        else:
            result.append(run)
    return result


def part_bytes(runs: Sequence[LayerRun]) -> int:
    """Bytes of one rank's part of a page."""
    return sum(run.length for run in runs)


def layer_spec(spec: Any, layer: str) -> Any:
    """The KVCacheSpec of one layer of a group."""
    return getattr(spec, "kv_cache_specs", {}).get(layer, spec)


def expected_part_bytes(kv_cache_config: Any, group: int) -> int:
    """The same as part_bytes, from the specs alone: the scheduler sees no tensors. What a worker
    reports is right where they differ."""
    total = 0
    for layer in kv_cache_config.kv_cache_groups[group].layer_names:
        spec = layer_spec(kv_cache_config.kv_cache_groups[group].kv_cache_spec, layer)
        if getattr(spec, "has_layer_views", True):
            total += getattr(spec, "real_page_size_bytes", None) or spec.page_size_bytes
        else:
            total += spec.page_size_bytes
    return total
