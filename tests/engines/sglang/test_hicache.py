# SPDX-License-Identifier: Apache-2.0
"""Goal: SGLang's own controllers and host pools get exactly the bytes back that they stored through
door A.

Method: the real classes with the real daemon: device → host → daemon, all memory wiped, and back,
every byte compared, for each kind of pool, layout and allocator.
"""
import ctypes

import pools
import pytest
import torch
from controllers import WINDOW, Rig, tokens_of
from daemon import Daemon
from hicache_bed import HICACHE, extra
from pools import PAGE, PoolName
from sglang.srt.mem_cache import hicache_storage
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from sglang.srt.mem_cache.memory_pool_host import DeepSeekV4PagedHostPool, LogicalHostPool

PAGES = 5
CASES = [(kinds, layout, hybrid)
         for kinds, layouts in ((("mha",), pools.LAYOUTS), (("mla",), pools.LAYOUTS),
                                (("mha", "swa"), pools.LAYOUTS),
                                (("mla+indexer",), pools.LAYOUTS),
                                (("mha", "mamba"), pools.PAGE_FIRST),
                                (("mla", "mamba"), pools.PAGE_FIRST),
                                (("mha", "swa", "mamba"), pools.PAGE_FIRST))
         for layout in layouts for hybrid in (False, True) if hybrid or kinds in (("mha",),
         ("mla",))]
TAILS = {"swa": WINDOW, "mamba": 1}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One daemon for tests that only add pages; each has a revision of its own."""
    with Daemon(tmp_path_factory.mktemp("node")) as found:
        yield found


@pytest.fixture
def rig(node, request):
    """rig(kinds, layout, …): controllers over the daemon."""
    made = []

    def make(kinds=("mha",), layout="page_first", hybrid=None, revision=request.node.name, **how):
        more = {**extra(node, revision=revision), **how.pop("extra", {})}
        made.append(Rig(HICACHE, kinds, layout, hybrid, extra=more, **how))
        made[-1].fill(seed=1)
        return made[-1]

    yield make
    for one in made:
        one.close()


def there_and_back(found, pages=PAGES):
    """Bytes on the device before and after, in other slots."""
    here, there = found.slots(1, pages), found.slots(pages + 1, pages, state=7)
    want = found.read(here)
    done = found.backup(tokens_of(1, pages), here)
    found.wipe()
    assert found.read(there) != want
    got = found.prefetch(tokens_of(1, pages))
    found.load(got, there)
    assert done.tokens == got.hit_tokens == got.tokens == pages * PAGE
    return want, found.read(there), got


@pytest.mark.parametrize("allocator", ["default", "shm"])
@pytest.mark.parametrize("kinds, layout, hybrid", CASES)
def test_every_byte_returns_by_the_controllers(rig, kinds, layout, hybrid, allocator):
    want, have, got = there_and_back(rig(kinds, layout, hybrid, allocator=allocator))
    assert have == want
    assert got.pool_hits == {name: hits for name, hits in TAILS.items() if name in kinds}


@pytest.mark.parametrize("layout", pools.LAYOUTS)
def test_every_byte_returns_by_the_old_interface(rig, layout):
    want, have, _ = there_and_back(rig(("mha",), layout, interface_v1=0))
    assert have == want


@pytest.mark.parametrize("kinds", [("mha",), ("mla+indexer",)])
def test_more_than_a_batch_of_pages_comes_in_several_calls(rig, kinds):
    want, have, _ = there_and_back(rig(kinds, pages=262), 130)
    assert have == want


def test_the_prefix_that_is_restored_is_one_that_every_pool_has(rig):
    """A window after pages 1 and 3, a state after pages 1 and 2: 1 page, where the smaller of the
    longest would be 2."""
    found = rig(("mha", "swa", "mamba"))
    tokens = tokens_of(1, 3)
    keys = found.hashes(tokens)
    slots = found.write(found.slots(1, 3))
    backend = found.backend
    side = {name: found.parts[name].host for name in (PoolName.SWA, PoolName.MAMBA)}

    def put(name, *stored):
        for page in stored:
            host = slots[name][:side[name].page_size]
            assert backend.batch_set_v2([PoolTransfer(name, host, keys=[keys[page - 1]])]) == {
                name: [True]}

    assert backend.batch_set_v1(keys, slots[PoolName.KV]) == [True] * 3
    put(PoolName.SWA, 1, 3)
    put(PoolName.MAMBA, 1, 2)
    window = [PoolTransfer(name, keys=["__placeholder__"],
                           hit_policy=hicache_storage.PoolHitPolicy.TRAILING_PAGES)
              for name in side]
    answer = backend.batch_exists_v2(keys, window)
    assert (answer.kv_hit_pages, answer.restorable_prefix_pages) == (1, [1])
    found.free(slots)


def test_a_backend_can_be_detached_and_attached_while_the_engine_runs(rig, node):
    found = rig(revision="attached again")
    here = found.slots(1, PAGES)
    want = found.read(here)
    found.backup(tokens_of(1, PAGES), here)
    first = found.backend
    again = {"backend_name": "HiCache", "module_path": "kvsidecar.sglang", "class_name": "HiCache",
             "interface_v1": 1, **extra(node, revision="attached again")}
    found.controller.detach_storage_backend()
    assert first.session.client is None
    found.controller.attach_storage_backend("dynamic", model_name="org/tiny",
                                            storage_backend_extra_config=again)
    found.wipe()
    there = found.slots(20, PAGES)
    found.load(found.prefetch(tokens_of(1, PAGES)), there)
    assert found.read(there) == want


@pytest.fixture
def attached(node, request):
    """attached({name: host pool}, …): a backend over real host pools, without a controller."""
    from kvsidecar.sglang import HiCache
    made = []

    def make(hosts, revision=request.node.name, **changed):
        values = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                      is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=False,
                      model_name="org/tiny",
                      extra_config={"interface_v1": 1, **extra(node, revision=revision)})
        made.append(HiCache(hicache_storage.HiCacheStorageConfig(**{**values, **changed}), {}))
        made[-1].register_mem_pool_host(hosts[PoolName.KV])
        for name, host in hosts.items():
            made[-1].register_mem_host_pool_v2(host, name)
        return made[-1]

    yield make
    for one in made:
        one.close()


def moved_back(backend, name, host, keys):
    """Stores the pool's pages 1 and on, wipes all of it, and reads them into others."""
    here, there = (torch.arange(first * host.page_size, (first + len(keys)) * host.page_size)
                   for first in (1, len(keys) + 1))
    buffers = host.kv_buffer if isinstance(host.kv_buffer, list) else [host.kv_buffer]
    for buffer in buffers:
        buffer.view(torch.uint8).random_(0, 256)
    want = page_bytes(host, here)
    assert backend.batch_set_v2([PoolTransfer(name, here, keys=keys)]) == {name: [True] * len(keys)}
    for buffer in buffers:
        buffer.view(torch.uint8).fill_(0x5A)
    assert backend.batch_get_v2([PoolTransfer(name, there, keys=keys)]) == {
        name: [True] * len(keys)}
    return want, page_bytes(host, there)


def page_bytes(host, slots):
    return [ctypes.string_at(*piece) for piece in zip(*host.get_page_buffer_meta(slots)[:2])]


@pytest.mark.parametrize("allocator", ["default", "shm"])
@pytest.mark.parametrize("layout", pools.LAYOUTS)
def test_pages_of_deepseek_v4_return_beside_an_anchor_without_bytes(attached, layout, allocator):
    hosts = {PoolName.KV: LogicalHostPool(16 * 256, 256)}
    for name, size in (("deepseek_v4_c4", 37440), ("deepseek_v4_c128", 1728),
                       ("deepseek_v4_c4_indexer", 8448)):
        hosts[PoolName(name)] = DeepSeekV4PagedHostPool(
            name, [torch.zeros(1, size, dtype=torch.uint8)] * 3, size, 16, 256, layout,
            pin_memory=False, allocator_type=allocator)
    backend = attached(hosts, is_mla_model=True)
    keys = [f"{page:064x}" for page in range(5)]
    side = [PoolTransfer(name, indices_from_pool=PoolName.KV) for name in hosts
            if name != PoolName.KV]
    assert backend.batch_exists(keys) == 5
    assert backend.batch_exists_v2(keys, side).kv_hit_pages == 0
    for transfer in side:
        want, have = moved_back(backend, transfer.name, hosts[transfer.name], keys)
        assert have == want
    assert backend.batch_exists_v2(keys, side).kv_hit_pages == 5


def test_pages_with_split_heads_return(attached):
    part = pools.mha(PoolName.KV, 20, "page_head", "shm")
    backend = attached({PoolName.KV: part.host}, tp_lcm_size=2, should_split_heads=True)
    want, have = moved_back(backend, PoolName.KV, part.host, [f"{page:064x}" for page in range(3)])
    assert have == want and len(backend._pools.get("kv").shares) == 2
    part.host.destroy()


def test_an_anchor_of_sglang_is_known_as_one(rig):
    found = rig()
    anchor = LogicalHostPool(4 * PAGE, PAGE)
    found.backend.register_mem_host_pool_v2(anchor, "anchor")
    assert found.backend._pools.get("anchor").logical
    assert not found.backend._pools.get("kv").logical
