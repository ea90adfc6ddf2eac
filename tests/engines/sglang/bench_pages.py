# SPDX-License-Identifier: Apache-2.0
"""A real host pool of SGLang whose pages are written and read as the pool itself says where they
lie, and the keys and values that all backends get alike."""
import ctypes
import hashlib
import random
from dataclasses import dataclass

import hicache_on_cpu
import numpy
import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

hicache_on_cpu.install()

TOKENS = 64  # of a page
LAYOUT = "page_first"  # SGLang's default; nobody needs more than K's and V's half of a page
DEVICE_PAGES = 4


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    head_dim: int
    pages: int  # of the host pool

    @property
    def page_bytes(self):
        return TOKENS * self.layers * self.heads * self.head_dim * 2 * 2


class HostPages:
    """A host pool of keys and values, and its bytes. allocator: of SGLang."""

    def __init__(self, shape, allocator):
        device = MHATokenToKVPool(DEVICE_PAGES * TOKENS, TOKENS, torch.bfloat16, shape.heads,
                                  shape.head_dim, shape.layers, "cpu", False)
        self.shape = shape
        self.host = MHATokenToKVPoolHost(
            device.get_device_pool_infos()[0].buffer_info, shape.pages / DEVICE_PAGES, 0, TOKENS,
            LAYOUT, pin_memory=False, allocator_type=allocator, device_capacity_tokens=device.size,
            start_layer=0, end_layer=shape.layers)

    def _pieces(self, slots):
        """(address, begin, end) of each piece, by its place in the values of all these pages."""
        begin = 0
        for address, size in zip(*self.host.get_page_buffer_meta(slots)[:2]):
            yield address, begin, begin + size
            begin += size

    def write(self, slots, values):
        for address, begin, end in self._pieces(slots):
            ctypes.memmove(address, values[begin:end], end - begin)

    def holds(self, slots, values):
        """Whether every byte of these pages is that of the values."""
        return all(ctypes.string_at(address, end - begin) == values[begin:end]
                   for address, begin, end in self._pieces(slots))

    def close(self):
        self.host.destroy()


class Inputs:
    """Keys, values and places, the same for the same seed."""

    def __init__(self, seed):
        self._places = random.Random(seed)
        self._bytes = numpy.random.default_rng(seed)
        self._seed, self._next = seed, 0

    def keys(self, count):
        """Never given before."""
        self._next += count
        return [hashlib.sha256(f"{self._seed} {self._next} {i}".encode()).hexdigest()
                for i in range(count)]

    def values(self, shape, pages):
        return self._bytes.bytes(pages * shape.page_bytes)

    def slots(self, shape, pages):
        """Of so many pages anywhere in a pool, as SGLang words them."""
        chosen = torch.tensor(self._places.sample(range(shape.pages), pages))
        return (chosen[:, None] * TOKENS + torch.arange(TOKENS)).reshape(-1)

    def shuffled(self, things):
        return self._places.sample(things, len(things))


def inverted(values):
    """Others in every byte."""
    return numpy.bitwise_not(numpy.frombuffer(values, numpy.uint8)).tobytes()
