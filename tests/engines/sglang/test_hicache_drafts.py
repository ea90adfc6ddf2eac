# SPDX-License-Identifier: Apache-2.0
"""Goal: pages of draft models come back byte for byte, packed into the target's pages or in pools
of their own, and engines with and without a draft never see each other's pages (O4-03).

Method: SGLang's real host pools and its controller with draft pools, which are packed as its
multi-layer drafts are or registered while the controller runs; SGLang's engine has no way to draft
on a CPU that keeps KV.
"""
import ctypes

import pools
import pytest
import torch
from controllers import Rig, tokens_of
from daemon import Daemon
from hicache_bed import HICACHE, extra
from pools import HEAD_DIM, HEADS, LAYERS, PAGE, PoolName
from sglang.srt.mem_cache import hicache_storage
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host import PoolEntry
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

PAGES = 20
KEYS = [f"{page:064x}" for page in range(5)]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("node")) as found:
        yield found


def device_pool(layers):
    return MHATokenToKVPool(PAGES * PAGE, PAGE, torch.bfloat16, HEADS, HEAD_DIM, layers, "cpu",
                            False)


def host_pool(layout, allocator, *drafts):
    """Of a target with these draft layers in its pages."""
    target = device_pool(LAYERS)
    infos = [pool.get_device_pool_infos()[0].buffer_info for pool in (target, *drafts)]
    host = MHATokenToKVPoolHost(
        infos[0], pools.HOST_RATIO, 0, PAGE, layout, allocator_type=allocator,
        device_capacity_tokens=target.size, start_layer=0, end_layer=LAYERS,
        draft_buffer_infos=infos[1:])
    return host, target


@pytest.fixture
def attached(node, request):
    """A backend over one host pool of KV."""
    from kvsidecar.sglang import HiCache
    made = []

    def make(host):
        values = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                      is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=False,
                      model_name="org/tiny", extra_config={
                          "interface_v1": 1, **extra(node, revision=request.node.name)})
        made.append(HiCache(hicache_storage.HiCacheStorageConfig(**values), {}))
        made[-1].register_mem_pool_host(host)
        made[-1].register_mem_host_pool_v2(host, PoolName.KV)
        return made[-1]

    yield make
    for one in made:
        one.close()


def slots(first):
    return torch.arange(first * PAGE, (first + len(KEYS)) * PAGE)


def page_bytes(host, first):
    return [ctypes.string_at(*piece) for piece in zip(*host.get_page_buffer_meta(slots(first))[:2])]


def fill(host, seed):
    buffers = host.kv_buffer if isinstance(host.kv_buffer, (list, tuple)) else [host.kv_buffer]
    for buffer in buffers:
        buffer.view(torch.uint8).random_(0, 256, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("allocator", ["default", "shm"])
@pytest.mark.parametrize("layout", pools.LAYOUTS)
def test_pages_with_packed_draft_layers_return_and_are_their_engines_alone(attached, layout,
                                                                          allocator):
    packed, _target = host_pool(layout, allocator, device_pool(1), device_pool(1))
    plain, _other = host_pool(layout, allocator)
    assert sum(map(len, page_bytes(packed, 1))) * LAYERS == \
        sum(map(len, page_bytes(plain, 1))) * (LAYERS + 2)
    backend, without = attached(packed), attached(plain)
    fill(packed, seed=1)
    want = page_bytes(packed, 1)
    assert backend.batch_set_v1(KEYS, slots(1)) == [True] * len(KEYS)
    fill(packed, seed=2)
    assert backend.batch_get_v1(KEYS, slots(10)) == [True] * len(KEYS)
    assert page_bytes(packed, 10) == want
    assert without.batch_exists(KEYS) == 0
    assert without.batch_get_v1(KEYS, slots(1)) == [False] * len(KEYS)
    for host in (packed, plain):
        host.destroy()


def test_one_draft_layer_more_is_another_models_pages(attached):
    one, _ = host_pool("page_first", "shm", device_pool(1))
    two, _ = host_pool("page_first", "shm", device_pool(1), device_pool(1))
    assert attached(one).batch_set_v1(KEYS, slots(1)) == [True] * len(KEYS)
    assert attached(two).batch_exists(KEYS) == 0
    for host in (one, two):
        host.destroy()


@pytest.mark.parametrize("layout", pools.LAYOUTS)
def test_a_draft_pool_that_comes_while_the_controller_runs_is_stored_beside_the_target(
        node, request, layout):
    with Rig(HICACHE, ("mha",), layout, hybrid=True,
             extra=extra(node, revision=request.node.name)) as rig:
        draft = pools.mha(PoolName.DRAFT, 40, layout, "shm")
        rig.controller.register_host_pool_entry(PoolEntry(
            PoolName.DRAFT, draft.host, draft.device, lambda layer: layer,
            is_primary_index_anchor=False))
        rig.fill(seed=1)
        fill(draft.host, seed=3)
        tokens = tokens_of(1, len(KEYS))
        host = rig.write(rig.slots(1, len(KEYS)))
        keys = rig.hashes(tokens)
        want = [ctypes.string_at(*piece) for piece in zip(
            *draft.host.get_page_buffer_meta(host[PoolName.KV])[:2])]
        side = [PoolTransfer(PoolName.DRAFT, indices_from_pool=PoolName.KV)]
        rig.controller.write_storage(host[PoolName.KV], tokens, keys, extra_pools=side)
        ack = rig.controller.ack_backup_queue.get(timeout=30)
        assert ack.completed_tokens == len(tokens)
        found = rig.backend.batch_exists_v2(keys, side)
        assert found.kv_hit_pages == len(keys)
        fill(draft.host, seed=4)
        there = host[PoolName.KV]
        assert rig.backend.batch_get_v2([PoolTransfer(PoolName.DRAFT, there, keys=keys)]) == {
            PoolName.DRAFT: [True] * len(keys)}
        assert want == [ctypes.string_at(*piece) for piece in zip(
            *draft.host.get_page_buffer_meta(there)[:2])]
        rig.free(host)
        draft.host.destroy()
