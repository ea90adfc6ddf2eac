# SPDX-License-Identifier: Apache-2.0
"""Host pools with SGLang's names, addresses and layouts, over numpy: small, and without an engine.

Memory comes as SGLang's allocators make it: "default" can't be shared, "shm" is a memfd each.
"""
import ctypes
import mmap
import os

import numpy

PAGE = 4  # tokens
PAGES = 12
LAYERS, HEADS, HEAD_DIM = 3, 2, 8
LATENT = 24


class Tensor:
    """A contiguous CPU tensor, as far as a backend looks at one."""

    def __init__(self, array):
        self.array = numpy.ascontiguousarray(array)

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return True

    def bytes(self):
        return self.array.tobytes()


class Allocator:
    """SGLang's default one."""

    def allocate(self, size):
        self.kept = getattr(self, "kept", [])
        self.kept.append(mmap.mmap(-1, -(-size // 4096) * 4096,
                                   mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
        return numpy.frombuffer(self.kept[-1], dtype=numpy.uint8, count=size)


class ShmAllocator:
    """Its shm one: fds and mms of all that it has made."""

    def __init__(self):
        self.fds, self.mms = [], []

    def allocate(self, size):
        size_up = -(-size // 4096) * 4096
        fd = os.memfd_create("sglang_host_pool", os.MFD_CLOEXEC)
        os.ftruncate(fd, size_up)
        os.posix_fallocate(fd, 0, size_up)
        mapping = mmap.mmap(fd, size_up, mmap.MAP_SHARED)
        self.fds.append(fd)
        self.mms.append(mapping)
        return numpy.frombuffer(mapping, dtype=numpy.uint8, count=size)

    def __del__(self):
        for fd in self.fds:
            os.close(fd)


class HostPool:
    """Pages of segments. segments: (buffer number, base, stride, length) in bytes."""

    layout = "page_first"
    dtype = "torch.bfloat16"
    page_size = PAGE
    start_layer, end_layer, layer_num = 0, LAYERS, LAYERS
    storage_format_tag = None
    shared_allocation_domain = None

    def __init__(self, allocator="shm", pages=PAGES):
        self.allocator = ShmAllocator() if allocator == "shm" else Allocator()
        self.pages, self.size = pages, pages * self.page_size
        self.kv_buffer = None
        self._lay_out()

    def _allocate(self, *sizes):
        self.buffers = [self.allocator.allocate(size) for size in sizes]
        self.kv_buffer = self.buffers if len(sizes) > 1 else self.buffers[0]

    def get_page_buffer_meta(self, indices):
        assert len(indices) % self.page_size == 0
        addresses, sizes = [], []
        for slot in indices.tolist()[::self.page_size]:
            for buffer, base, stride, length in self.segments:
                addresses.append(self.buffers[buffer].ctypes.data + base +
                                 slot // self.page_size * stride)
                sizes.append(length)
        return addresses, sizes

    # What tests do with it.

    @property
    def page_bytes(self):
        return sum(segment[3] for segment in self.segments)

    def page(self, number):
        """Its bytes, as they are now."""
        found = self.get_page_buffer_meta(self.slots(number))
        return b"".join(ctypes.string_at(*piece) for piece in zip(*found))

    def write(self, number, content):
        addresses, sizes = self.get_page_buffer_meta(self.slots(number))
        for address, size in zip(addresses, sizes):
            ctypes.memmove(address, content[:size], size)
            content = content[size:]

    def slots(self, *numbers):
        """SGLang's indices of these pages."""
        return numpy.concatenate([numpy.arange(self.page_size) + number * self.page_size
                                  for number in numbers] or [numpy.zeros(0, numpy.int64)])

    def fill(self, seed, *numbers):
        """Random bytes into these pages; what they hold then."""
        random = numpy.random.default_rng(seed)
        for number in numbers:
            self.write(number, random.bytes(self.page_bytes))
        return [self.page(number) for number in numbers]

    # The flat way.

    def get_data_page(self, index, flat=True):
        return Tensor(numpy.frombuffer(self.page(int(index) // self.page_size), numpy.uint8))

    def get_dummy_flat_data_page(self):
        return Tensor(numpy.zeros(self.page_bytes, numpy.uint8))

    def set_from_flat_data_page(self, index, data_page):
        self.write(int(index) // self.page_size, data_page.bytes())


class Mha(HostPool):
    """K and V."""

    head_num = HEADS

    def __init__(self, allocator="shm", pages=PAGES, layout="page_first", head_dim=HEAD_DIM,
                 v_head_dim=None):
        self.layout, self._dims = layout, (head_dim, v_head_dim or head_dim)
        super().__init__(allocator, pages)

    def _lay_out(self):
        rows = [2 * HEADS * dim * PAGE for dim in self._dims]  # of a layer and page
        if self._dims[0] != self._dims[1]:  # each in memory of its own
            self._allocate(*(row * LAYERS * self.pages for row in rows))
            self.segments = [(i, 0, row * LAYERS, row * LAYERS) for i, row in enumerate(rows)]
            return
        row = rows[0]
        half = row * LAYERS * self.pages
        self._allocate(2 * half)
        if self.layout == "layer_first":
            self.segments = [(0, half * kind + layer * row * self.pages, row, row)
                             for layer in range(LAYERS) for kind in range(2)]
        else:
            self.segments = [(0, half * kind, row * LAYERS, row * LAYERS) for kind in range(2)]

    def get_split_heads_page_buffer_meta(self, indices, split_factor):
        assert self.layout == "page_head"
        addresses, sizes = [], []
        share = self.segments[0][3] // split_factor
        for slot in indices.tolist()[::PAGE]:
            k, v = self.get_page_buffer_meta(numpy.arange(PAGE) + slot)[0]
            for part in range(split_factor):
                addresses += [k + part * share, v + part * share]
                sizes += [share, share]
        return addresses, sizes


class Mla(HostPool):
    """One latent row a token."""

    kv_lora_rank = LATENT

    def __init__(self, allocator="shm", pages=PAGES, layout="page_first"):
        self.layout = layout
        super().__init__(allocator, pages)

    def _lay_out(self):
        row = 2 * LATENT * PAGE
        self._allocate(row * LAYERS * self.pages)
        if self.layout == "layer_first":
            self.segments = [(0, layer * row * self.pages, row, row) for layer in range(LAYERS)]
        else:
            self.segments = [(0, 0, row * LAYERS, row * LAYERS)]


class Indexer(HostPool):
    """Keys of sparse attention, in the KV pool's pages. Its rows are padded."""

    def _lay_out(self):
        self._allocate(160 * self.pages)
        self.segments = [(0, 0, 160, 132)]


class Mamba(HostPool):
    """A state a slot: the recurrent one and the convolutions', each in memory of its own."""

    page_size = 1

    def _lay_out(self):
        sizes = [512, 96, 48]
        self._allocate(*(size * self.pages for size in sizes))
        self.segments = [(i, 0, size, size) for i, size in enumerate(sizes)]
        self.kv_buffer = None

    def get_hybrid_pool_buffer(self):
        return self.buffers


class Logical(HostPool):
    """An anchor without bytes."""

    def _lay_out(self):
        self.segments, self.allocator, self.layer_num = [], None, 0

    def get_page_buffer_meta(self, indices):
        return None


class Flat(Mha):
    """A pool whose pages have no addresses of their own."""

    def _lay_out(self):
        super()._lay_out()
        self.shared_allocation_domain = object()
