# SPDX-License-Identifier: Apache-2.0
"""Goal: a block's bytes are found wherever a release of vLLM puts them, or the layout is refused
with its shapes and strides.

Method: numpy arrays in the shapes and strides of real layouts stand for tensors; a block is marked
through the tensor, and the runs must name exactly the marked bytes, in every layout. Covers O4-02,
O1-13.
"""
from types import SimpleNamespace

import numpy as np
import pytest

from kvsidecar import Misuse
from kvsidecar.vllm.layout import (LayerRun, expected_part_bytes, group_runs, joined, part_bytes,
                                   pieces)

BLOCKS, HEADS, TOKENS, CONTENT = 5, 3, 8, 16  # of float32
PAGE = HEADS * TOKENS * CONTENT * 4


class Tensor:
    """A numpy view with the part of torch's interface that the layout asks for."""

    def __init__(self, view, buffer):
        self.view, self.buffer = view, buffer
        self.shape = view.shape

    def stride(self):
        return tuple(stride // self.view.itemsize for stride in self.view.strides)

    def element_size(self):
        return self.view.itemsize

    def storage_offset(self):
        start = self.view.__array_interface__["data"][0]
        return (start - self.buffer.__array_interface__["data"][0]) // self.view.itemsize

    def untyped_storage(self):
        return SimpleNamespace(data_ptr=lambda: self.buffer.__array_interface__["data"][0])


def config(groups, tensors=(), blocks=BLOCKS, **spec):
    return SimpleNamespace(
        num_blocks=blocks, kv_cache_tensors=list(tensors),
        kv_cache_groups=[SimpleNamespace(
            layer_names=names, kv_cache_spec=SimpleNamespace(
                **{"page_size_bytes": PAGE, "real_page_size_bytes": PAGE, **spec}))
            for names in groups])


def planned(layers, layer_stride, block_stride, offset=0):
    return SimpleNamespace(layers=layers, layer_stride=layer_stride, block_stride=block_stride,
                           offset=offset)


def marked_bytes(tensors, buffer, block, split=1):
    """Which bytes of the buffer belong to a block, seen through the tensors."""
    buffer[:] = 0
    for tensor in tensors:
        tensor.view[block * split:(block + 1) * split] = 1
    found = np.flatnonzero(buffer.view("u4") if tensors[0].view.itemsize == 4 else buffer)
    return set(found.tolist())


def named_bytes(runs, block, item):
    starts = [(run.base + block * run.block_stride, run.length) for run in runs]
    return {at // item for start, length in starts for at in range(start, start + length, item)}


def layered(order, layers=2, split=1):
    """Per-layer views [blocks, heads, tokens, content] of one buffer in that physical order."""
    sizes = dict(L=layers, B=BLOCKS * split, H=HEADS, N=TOKENS // split, C=CONTENT)
    buffer = np.zeros(np.prod(list(sizes.values())) * 4, "u1")
    whole = buffer.view("u4").reshape([sizes[axis] for axis in order])
    logical = whole.transpose([order.index(axis) for axis in "LBHNC"])
    return [Tensor(logical[layer], buffer) for layer in range(layers)], buffer


@pytest.mark.parametrize("order, split", [
    ("LBHNC", 1), ("LBNHC", 1), ("BLHNC", 1), ("BLNHC", 1), ("LHBNC", 1), ("BHLNC", 1),
    ("LBHNC", 2), ("LBNHC", 2), ("LHBNC", 2)])  # split: vLLM splits no blocks of all layers
def test_the_runs_are_the_blocks_bytes_in_every_layout_of_vllm(order, split):
    tensors, buffer = layered(order, split=split)
    runs = group_runs(config([["a", "b"]]), {"a": tensors[0], "b": tensors[1]}, 0)
    assert part_bytes(runs) == 2 * PAGE
    for block in range(BLOCKS):
        assert named_bytes(runs, block, 4) == marked_bytes(tensors, buffer, block, split)


def test_a_block_with_all_layers_side_by_side_is_one_run():
    tensors, buffer = layered("BLHNC")
    runs = group_runs(config([["a", "b"]]), {"a": tensors[0], "b": tensors[1]}, 0)
    assert [(run.base, run.block_stride, run.length) for run in runs] == [(0, 2 * PAGE, 2 * PAGE)]


def test_groups_that_overlay_each_other_have_the_same_memory():
    tensors, buffer = layered("LBHNC")
    caches = {"a": tensors[0], "b": tensors[1], "c": tensors[0]}
    plan = [planned(["a", "b"], PAGE * BLOCKS, PAGE), planned(["c"], PAGE * BLOCKS, PAGE)]
    both = config([["a", "b"], ["c"]], plan)
    assert group_runs(both, caches, 1) == group_runs(both, caches, 0)[:1]


def test_padding_behind_a_page_is_not_part_of_it():
    """A recurrent layer's state in pages as large as those of attention."""
    payload, stride = 100, 256
    buffer = np.zeros(BLOCKS * stride, "u1")
    view = np.lib.stride_tricks.as_strided(buffer, (BLOCKS, 1, 1, payload),
                                           (stride, payload, payload, 1))
    runs = group_runs(config([["m"]], [planned(["m"], 0, stride)]), {"m": Tensor(view, buffer)}, 0)
    assert [(run.base, run.block_stride, run.length) for run in runs] == [(0, stride, payload)]


def test_a_list_of_states_is_mapped_one_by_one():
    stride = 256
    buffer = np.zeros(BLOCKS * stride, "u1")
    first = np.lib.stride_tricks.as_strided(buffer, (BLOCKS, 40), (stride, 1))
    second = np.lib.stride_tricks.as_strided(buffer[40:], (BLOCKS, 10), (stride, 1))
    runs = group_runs(config([["m"]]), {"m": [Tensor(first, buffer), Tensor(second, buffer)]}, 0)
    assert [(run.base, run.length) for run in runs] == [(0, 50)]


def test_storages_of_their_own_stay_apart():
    a, b = (layered("LBHNC", layers=1)[0][0] for _ in range(2))
    runs = group_runs(config([["a", "b"]]), {"a": a, "b": b}, 0)
    assert len({run.storage for run in runs}) == 2 and part_bytes(runs) == 2 * PAGE


def test_keys_and_values_in_front_of_the_blocks_are_refused_with_shape_and_strides():
    buffer = np.zeros(2 * BLOCKS * PAGE, "u1")
    view = buffer.view("u4").reshape(2, BLOCKS, TOKENS, HEADS, CONTENT)
    with pytest.raises(Misuse, match=r"shape \(2, 5, 8, 3, 16\), strides .*VLLM_KV_CACHE_LAYOUT"):
        group_runs(config([["a"]]), {"a": Tensor(view, buffer)}, 0)


def test_address_facts_that_the_tensor_contradicts_are_refused():
    tensors, _ = layered("LBHNC")
    wrong = config([["b"]], [planned(["a", "b"], PAGE, 2 * PAGE)])
    with pytest.raises(Misuse, match="kv_cache_config says"):
        group_runs(wrong, {"a": tensors[0], "b": tensors[1]}, 0)


def test_a_layer_that_was_not_registered_is_named():
    tensors, _ = layered("LBHNC")
    with pytest.raises(Misuse, match=r"layer b, but no KV cache .* there are \['a'\]"):
        group_runs(config([["a", "b"]]), {"a": tensors[0]}, 0)


def test_the_scheduler_expects_what_the_workers_have():
    assert expected_part_bytes(config([["a", "b"]]), 0) == 2 * PAGE
    assert expected_part_bytes(config([["m"]], page_size_bytes=256, real_page_size_bytes=100),
                               0) == 100


def test_pieces_follow_the_order_of_the_dimensions():
    assert pieces([2, 4], [100, 1]) == [(0, 4), (100, 4)]
    assert pieces([4, 2], [1, 100]) == [(0, 4), (100, 4)]
    assert pieces([1, 4], [7, 1]) == [(0, 4)]


def test_only_neighbours_of_one_storage_and_stride_are_joined():
    runs = [LayerRun(1, 0, 100, 10), LayerRun(1, 10, 100, 10), LayerRun(1, 30, 100, 10),
            LayerRun(1, 40, 50, 10), LayerRun(2, 50, 50, 10)]
    assert joined(runs) == [LayerRun(1, 0, 100, 20)] + runs[2:]
