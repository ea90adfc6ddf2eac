# SPDX-License-Identifier: Apache-2.0
"""Real device pools and host pools of SGLang, small and on the CPU, with a way to see their bytes.

Must be imported after standins are on PYTHONPATH (variables.sh). PAGE tokens are a page.
"""
import ctypes

import hicache_on_cpu
import torch
from sglang.srt.mem_cache.device_pool_info import MambaStateBufferInfo
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost

hicache_on_cpu.install()

PAGE = 64
LAYERS = 3
HEADS, HEAD_DIM = 2, 64
LATENT, ROPE = 128, 64  # of MLA: a token's bytes are (128 + 64) * 2 a layer
INDEX_DIM = 128
STATES = 16
HOST_RATIO = 2.0

# Layouts that a KV pool can have, with the way of copying that SGLang uses for each.
LAYOUTS = {"layer_first": "direct", "page_first": "kernel", "page_first_direct": "direct"}
PAGE_FIRST = tuple(layout for layout in LAYOUTS if layout.startswith("page_first"))


class Part:
    """A device pool with its host pool. `rows`: one tensor for each layer and kind of content; a
    row is `unit` slots."""

    def __init__(self, name, device, host, rows, unit=1):
        self.name = name
        self.device = device
        self.host = host
        self._rows = rows
        self._unit = unit
        self.page_size = host.page_size

    def fill(self, seed):
        """Every byte on the device, from the seed; bit patterns that are no numbers included."""
        generator = torch.Generator().manual_seed(seed)
        for row in self._rows:
            row.view(torch.uint8).random_(0, 256, generator=generator)

    def wipe(self):
        """Nothing on the device is what it was."""
        for row in self._rows:
            row.view(torch.uint8).fill_(0xA5)

    def wipe_host(self):
        for buffer in self.host_buffers():
            buffer.view(torch.uint8).fill_(0x5A)

    def read(self, slots):
        """The device's bytes at these slots, layer by layer."""
        rows = slots[::self._unit] // self._unit
        return [row[rows].contiguous().view(torch.uint8).clone() for row in self._rows]

    def host_buffers(self):
        """All tensors of the host pool."""
        buffers = getattr(self.host, "index_k_with_scale_buffer", None)
        buffers = self.host.kv_buffer if buffers is None else buffers
        return buffers if isinstance(buffers, list) else [buffers]

    def host_pages(self, slots=None):
        """The bytes of each page (of all: None) as the host pool itself says where they lie: one
        bytes object for each of its pieces."""
        if slots is None:
            slots = torch.arange(self.host.size)
        pointers, sizes = self.host.get_page_buffer_meta(slots)[:2]
        pieces = len(pointers) // (len(slots) // self.page_size)
        read = [ctypes.string_at(*piece) for piece in zip(pointers, sizes)]
        return [read[at:at + pieces] for at in range(0, len(read), pieces)]


def _kv_host(kind, pool, layout, allocator, **more):
    infos = pool.get_device_pool_infos()
    return kind(infos[0].buffer_info, HOST_RATIO, 0, PAGE, layout, allocator_type=allocator,
                device_capacity_tokens=pool.size, start_layer=0, end_layer=LAYERS, **more)


def mha(name, pages, layout, allocator):
    pool = MHATokenToKVPool(pages * PAGE, PAGE, torch.bfloat16, HEADS, HEAD_DIM, LAYERS, "cpu",
                            False)
    return Part(name, pool, _kv_host(MHATokenToKVPoolHost, pool, layout, allocator),
                [*pool.k_buffer, *pool.v_buffer])


def _mla_host(pool, layout, allocator):
    return _kv_host(MLATokenToKVPoolHost, pool, layout, allocator, target_layer_num=LAYERS,
                    override_kv_cache_dim=pool.kv_cache_dim)


def mla(name, pages, layout, allocator):
    pool = MLATokenToKVPool(pages * PAGE, PAGE, torch.bfloat16, LATENT, ROPE, LAYERS, "cpu", False)
    return Part(name, pool, _mla_host(pool, layout, allocator), list(pool.kv_buffer))


def mla_with_index(pages, layout, allocator):
    """Sparse attention: latent KV, and the keys of its indexer in the same pages."""
    pool = DSATokenToKVPool(pages * PAGE, PAGE, LATENT, torch.bfloat16, ROPE, LAYERS, "cpu",
                            INDEX_DIM, False, LATENT + ROPE)
    kv = Part(PoolName.KV, pool, _mla_host(pool, layout, allocator), list(pool.kv_buffer))
    declaration = next(one for one in pool.host_pool_decls() if one.pool_name == PoolName.INDEXER)
    host = declaration.host_pool_builder.build(
        decl=declaration, anchor_host=kv.host, allocator_type=allocator,
        packed_draft_device_pools=())
    return kv, Part(PoolName.INDEXER, pool, host, list(pool.index_k_with_scale_buffer), unit=PAGE)


class _States:
    """Stands where SGLang has the pool of Mamba states: only its tensors are ever used."""

    def __init__(self):
        layers = 2
        self.temporal = torch.zeros(layers, STATES + 1, 4, 8, 16)
        self.conv = tuple(torch.zeros(layers, STATES + 1, width, 3, dtype=torch.bfloat16)
                          for width in (32, 16))


def mamba(layout, allocator):
    states = _States()
    host = MambaPoolHost(MambaStateBufferInfo(temporal=states.temporal, conv=states.conv),
                         HOST_RATIO, 0, device_capacity=STATES, layout=layout,
                         allocator_type=allocator)
    return Part(PoolName.MAMBA, states, host,
                [layer for kind in (*states.conv, states.temporal) for layer in kind])


def build(kinds, pages, layout, allocator="default"):
    """{pool name: Part}, the anchor first. kinds: "mha" or "mla" or "mla+indexer", and behind it
    any of "swa" and "mamba"."""
    anchor, *others = kinds
    if anchor == "mla+indexer":
        parts = list(mla_with_index(pages, layout, allocator))
    else:
        parts = [{"mha": mha, "mla": mla}[anchor](PoolName.KV, pages, layout, allocator)]
    for other in others:
        parts.append(mha(PoolName.SWA, pages, layout, allocator) if other == "swa"
                     else {"mamba": mamba}[other](layout, allocator))
    return {part.name: part for part in parts}
