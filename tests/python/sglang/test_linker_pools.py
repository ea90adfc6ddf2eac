# SPDX-License-Identifier: Apache-2.0
"""Goal: a page is made of exactly its rows of every buffer, in the order in which the model's
layers read them, and memory that isn't laid out so is refused.

Method: entries as SGLang gives them, over tensors of numpy memory; transfers of SGLang's shape.
"""
import fcntl
import os
from types import SimpleNamespace

import numpy
import pytest
from linker_scene import (
    LAYERS, PAGE, ROW_BYTES, HybridPool, MHATokenToKVPool, MLATokenToKVPool, PoolName, PoolTransfer,
    SWAKVPool, Storage, Tensor, components, hashes, params, slots)
from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolEntry, DevicePoolGroup

from kvsidecar.errors import Misuse
from kvsidecar.sglang.linker_memory import SHARED_MEMORY, HostDevice, device_for, follow
from kvsidecar.sglang.linker_pools import assembled, device_pools, layout_text
from kvsidecar.sglang.linker_transfers import asked, expanded

PAGE_BYTES = PAGE * ROW_BYTES


def pools_of(kvcache):
    return device_pools(assembled(kvcache, params(kvcache), components(kvcache)))


def entry(tensors, layers, rows_are_pages=False, page_size=PAGE, **more):
    return DevicePoolEntry(**{**dict(
        name=PoolName.KV, indices_from_pool=PoolName.KV, device_pool=None, components=[tensors],
        layer_mapping=layers, page_size=page_size, rows_are_pages=rows_are_pages), **more})


def pool(made, layers=2):
    return device_pools(DevicePoolGroup([made], layers, PAGE))["kv"]


def test_keys_and_values_of_a_layer_come_together():
    kvcache = MHATokenToKVPool(8)
    kv = pools_of(kvcache)["kv"]
    order = [tensor for pair in zip(kvcache.k_buffer, kvcache.v_buffer) for tensor in pair]
    assert [piece.tensor for piece in kv.pieces] == order
    assert {piece[1:] for piece in kv.pieces} == {(0, PAGE_BYTES, PAGE_BYTES)}
    assert kv.layer_ends == (2, 4, 6, 8)
    assert (kv.blocks, kv.slots, kv.part_bytes) == (8, PAGE, 2 * LAYERS * PAGE_BYTES)


def test_latent_attention_is_the_same_on_all_ranks():
    assert pools_of(MLATokenToKVPool(8))["kv"].replicated
    assert not pools_of(MHATokenToKVPool(8))["kv"].replicated
    class Absorbed(MLATokenToKVPool):
        pass

    states = entry([Tensor(8, 64)], {0: 0}, True, 1, name=PoolName.MAMBA)
    pools = device_pools(DevicePoolGroup(
        [entry([Tensor(8 * PAGE, 8)], {0: 0}, device_pool=Absorbed(8)), states], 1, PAGE))
    assert pools["kv"].replicated and not pools["mamba"].replicated, "states are shares"


def test_a_pool_is_waited_for_where_it_has_layers():
    pools = pools_of(SWAKVPool(8))
    assert pools["swa"].layer_ends == (2, 2, 4, 4)
    assert pools["kv"].layer_ends == (0, 2, 2, 4)


def test_buffers_that_no_layer_names_belong_to_the_last():
    tensors = [Tensor(8 * PAGE, ROW_BYTES) for _ in range(3)]
    kv = pool(entry(tensors, {0: 0, 1: 1}))
    assert [piece.tensor for piece in kv.pieces] == tensors
    assert kv.layer_ends == (1, 3)


def test_a_packed_draft_rides_with_the_layer_that_names_it():
    tensors = [Tensor(8 * PAGE, ROW_BYTES) for _ in range(3)]
    kv = pool(entry(tensors, {0: (0, 2), 1: 1}))
    assert [piece.tensor for piece in kv.pieces] == [tensors[0], tensors[2], tensors[1]]
    assert kv.layer_ends == (2, 3)


def test_rows_that_are_pages_may_have_gaps():
    tensors = [Tensor(8, 1000, gap=24) for _ in range(2)]
    kv = pool(entry(tensors, {0: 0, 1: 1}, rows_are_pages=True))
    assert {piece[1:] for piece in kv.pieces} == {(0, 1024, 1000)}
    assert kv.blocks == 8


def test_rows_of_a_page_may_not():
    with pytest.raises(Misuse, match="keep a page's 16 rows together"):
        pool(entry([Tensor(8 * PAGE, 1000, gap=24)], {0: 0}), 1)


def test_a_view_begins_where_it_lies_in_its_storage():
    storage = Storage(2 * 8 * PAGE_BYTES)
    tensors = [Tensor(8 * PAGE, ROW_BYTES, storage=storage, offset=i * 8 * PAGE_BYTES)
               for i in range(2)]
    kv = pool(entry(tensors, {0: 0, 1: 1}))
    assert [piece.base for piece in kv.pieces] == [0, 8 * PAGE_BYTES]


def test_a_state_is_a_page_of_one_slot():
    mamba = pools_of(HybridPool(8))["mamba"]
    assert mamba.slots == 1 and mamba.layer_ends == (0, 2, 2, 2)


def test_layers_of_other_sizes_are_another_layout():
    assert layout_text(pools_of(MHATokenToKVPool(8))["kv"]) != \
        layout_text(pools_of(MLATokenToKVPool(8))["kv"])


@pytest.mark.parametrize("scale", ["k_scale_buffer", "native_k_scale_buffer"])
def test_a_cache_with_scales_beside_it_is_refused(scale):
    kvcache = MHATokenToKVPool(8)
    setattr(kvcache, scale, [object()])
    with pytest.raises(Misuse, match="scales"):
        pools_of(kvcache)


# Transfers.


def test_pools_without_transfers_of_their_own_follow_their_source():
    tensors = [Tensor(8 * PAGE, ROW_BYTES) for _ in range(2)]
    draft = entry([tensors[1]], {0: 0}, name=PoolName("draft"),
                  index_mapper=lambda indices: indices[::2] // 2)
    draft.page_size = PAGE // 2
    pools = device_pools(DevicePoolGroup([entry([tensors[0]], {0: 0}), draft], 1, PAGE))
    transfer = PoolTransfer(PoolName.KV, device_indices=slots([3, 5]), keys=hashes(2))
    kv, other = expanded(pools, [transfer])
    assert kv.blocks == [3, 5] and other.pool.name == "draft" and other.blocks == [3, 5]
    assert kv.keys == other.keys == bytes.fromhex("".join(hashes(2)))


def test_a_source_that_isnt_asked_about_leaves_nothing():
    pools = pools_of(HybridPool(8))
    assert asked(pools, [PoolTransfer(PoolName.KV, keys=hashes(2))]) is None


def test_windows_are_as_long_as_sglang_says():
    pools = pools_of(HybridPool(8))
    told = asked(pools, [PoolTransfer(PoolName.KV, keys=hashes(5)),
                         PoolTransfer(PoolName.SWA, keys=hashes(5)[-3:]),
                         PoolTransfer(PoolName.MAMBA, keys=hashes(5)[-1:])])
    assert told.trailing == {"swa": 3, "mamba": 1} and told.pages == 5


@pytest.mark.parametrize("keys", [["ab", "abcd"], ["abc"], ["xy"], ["ab" * 65]])
def test_keys_that_are_no_hashes_are_refused(keys):
    pools = pools_of(MHATokenToKVPool(8))
    with pytest.raises(Misuse, match="key"):
        asked(pools, [PoolTransfer(PoolName.KV, keys=keys)])


# Memory.


def test_memory_moves_once_and_tables_of_addresses_follow():
    kvcache = MHATokenToKVPool(8)

    class Table(list):
        def tolist(self):
            return list(self)

        def new_tensor(self, values):
            return values

        def copy_(self, values):
            self[:] = values

    elsewhere = 4096
    kvcache.k_data_ptrs = Table([buffer.data_ptr() for buffer in kvcache.k_buffer] + [elsewhere])
    kvcache.v_data_ptrs = None
    moved = HostDevice().share({"kv": kvcache.buffers})
    assert len(moved) == 2 * LAYERS
    follow([None, kvcache], moved)
    assert kvcache.k_data_ptrs == [buffer.data_ptr() for buffer in kvcache.k_buffer] + [elsewhere]


def test_memory_that_shared_memory_has_no_room_for_stays_where_it_is(monkeypatch, caplog):
    kvcache = MHATokenToKVPool(8)
    monkeypatch.setattr(HostDevice, "_room", staticmethod(lambda: 8 * PAGE * ROW_BYTES - 1))
    assert HostDevice().share({"kv": kvcache.buffers}) == []
    assert caplog.text.count("larger /dev/shm") == 1


def test_ranks_take_shared_memory_one_after_the_other(monkeypatch):
    """Room that two of them see is taken by the first: the second would be killed."""
    kvcache, seen = MHATokenToKVPool(8), []

    def another_rank_waits():
        fd = os.open(SHARED_MEMORY, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    share = Storage._share_fd_cpu_
    monkeypatch.setattr(Storage, "_share_fd_cpu_",
                        lambda storage: seen.append(another_rank_waits()) or share(storage))
    assert HostDevice().share({"kv": kvcache.buffers}) and all(seen)
    assert not another_rank_waits()


def test_memory_of_another_device_is_refused():
    tensor = Tensor(8, 8)
    tensor.device = SimpleNamespace(type="cuda")
    with pytest.raises(Misuse, match="cuda"):
        device_for({"kv": [tensor]})


def test_views_of_one_storage_are_shared_once():
    storage = Storage(1024)
    storage.bytes[:] = numpy.arange(1024) % 251
    views = [Tensor(4, 128, storage=storage, offset=offset) for offset in (0, 512)]
    before = storage.data_ptr()
    assert [found[0] for found in HostDevice().share({"kv": views})] == [before]
    assert (views[1].array.reshape(-1) == numpy.arange(512, 1024) % 251).all()
