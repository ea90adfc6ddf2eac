# SPDX-License-Identifier: Apache-2.0
"""An engine for the linker's tests: device pools of known bytes in numpy, slots, transfers, and a
forward that waits for its layers, all in one process. Tensors are as much of torch's as the linker
asks for; sharing their storage moves it, as torch does."""
import hashlib
import mmap
import os
import sys
import threading
from types import SimpleNamespace

import numpy

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake")
if FAKE not in sys.path:
    sys.path.insert(0, FAKE)

from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer  # noqa: E402
from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import (  # noqa: E402
    DevicePoolEntry, DevicePoolGroup)

PAGE = 16  # tokens
LAYERS = 4
ROW_BYTES = 256  # of a token in one buffer
WINDOW = 2  # pages
ANSWER_S = 30


class Storage:
    def __init__(self, size, shareable=True):
        self.bytes = numpy.zeros(size, numpy.uint8)
        self._shareable = shareable

    def data_ptr(self):
        return self.bytes.ctypes.data

    def nbytes(self):
        return self.bytes.size

    def _share_fd_cpu_(self):
        if not self._shareable:
            raise RuntimeError("unable to allocate shared memory")
        fd = os.memfd_create("storage")
        os.posix_fallocate(fd, 0, self.bytes.size)
        mapped = numpy.frombuffer(mmap.mmap(fd, self.bytes.size), numpy.uint8)
        mapped[:] = self.bytes
        self.bytes = mapped
        return fd, self.bytes.size


class Tensor:
    """Rows of bytes over a storage, `gap` bytes apart from each other."""

    device = SimpleNamespace(type="cpu")
    dtype = "torch.uint8"

    def __init__(self, rows, row_bytes, gap=0, storage=None, offset=0, shareable=True):
        self.shape = (rows, row_bytes)
        self._stride = row_bytes + gap
        self._storage = storage or Storage(rows * self._stride, shareable)
        self._offset = offset

    @property
    def nbytes(self):
        return self.shape[0] * self.shape[1]

    @property
    def array(self):
        """Writable, of where the storage is now."""
        return numpy.lib.stride_tricks.as_strided(
            self._storage.bytes[self._offset:], self.shape, (self._stride, 1))

    def untyped_storage(self):
        return self._storage

    def data_ptr(self):
        return self._storage.data_ptr() + self._offset

    def storage_offset(self):
        return self._offset

    def element_size(self):
        return 1

    def stride(self, dimension=None):
        return (self._stride, 1) if dimension is None else (self._stride, 1)[dimension]

    def __getitem__(self, row):
        return SimpleNamespace(is_contiguous=lambda: True)


class MHATokenToKVPool:
    """Plain attention: keys and values of every layer in tensors of their own."""

    def __init__(self, pages, layers=LAYERS, shareable=True, row_bytes=ROW_BYTES):
        self.k_buffer, self.v_buffer = (
            [Tensor(pages * PAGE, row_bytes, shareable=shareable) for _ in range(layers)]
            for _ in range(2))
        self.start_layer = 0

    @property
    def buffers(self):
        return [*self.k_buffer, *self.v_buffer]


class MLATokenToKVPool:
    def __init__(self, pages, layers=LAYERS):
        self.kv_buffer = [Tensor(pages * PAGE, ROW_BYTES) for _ in range(layers)]
        self.start_layer = 0

    @property
    def buffers(self):
        return self.kv_buffer


class SWAKVPool:
    """Layers with a window (even ones) and without, each kind in a pool of its own."""

    def __init__(self, pages):
        self.full_kv_pool = MHATokenToKVPool(pages, LAYERS // 2)
        self.swa_kv_pool = MHATokenToKVPool(pages, LAYERS // 2)
        self.layers_mapping = {layer: (layer // 2, layer % 2 == 0) for layer in range(LAYERS)}
        self.start_layer = 0


STATES = 8
STATE_BYTES = 4096


class HybridPool:
    """Put together by SGLang itself: kv and swa as SWAKVPool's, and one state a slot."""

    def __init__(self, pages):
        self.window = SWAKVPool(pages)
        self.states = [Tensor(STATES, STATE_BYTES) for _ in range(2)]

    def linker_group(self, page_size, params):
        def attention(name, pool, layers):
            half = LAYERS // 2
            return DevicePoolEntry(
                name=name, indices_from_pool=name, device_pool=pool,
                components=[pool.buffers], page_size=page_size, rows_are_pages=False,
                layer_mapping={layer: (i, half + i) for i, layer in enumerate(layers)})
        return DevicePoolGroup([
            attention(PoolName.KV, self.window.full_kv_pool, range(1, LAYERS, 2)),
            attention(PoolName.SWA, self.window.swa_kv_pool, range(0, LAYERS, 2)),
            DevicePoolEntry(
                name=PoolName.MAMBA, indices_from_pool=PoolName.MAMBA, device_pool=self,
                components=[[state] for state in self.states], layer_mapping={1: 0}, page_size=1,
                rows_are_pages=True)], LAYERS, page_size)


def params(kvcache, **more):
    requests = SimpleNamespace(counters=[])
    requests.register_layer_transfer_counter = requests.counters.append
    return SimpleNamespace(**{**dict(
        page_size=PAGE, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
        attn_tp_cache_group=None, tp_cache_group=None, req_to_token_pool=requests,
        mtp_draft_device_pools=(), sidecar_draft_device_pools=(),
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: kvcache)), **more})


def server_args(folder, **more):
    """Of a model whose folder holds what is called its weights."""
    os.makedirs(str(folder), exist_ok=True)
    for name, text in (("config.json", "{}"), ("model.safetensors", "")):
        path = os.path.join(str(folder), name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return SimpleNamespace(**{**dict(
        model_path=str(folder), revision=None, load_format="auto", dtype="bfloat16", device="cpu",
        quantization=None, nnodes=1), **more})


def components(kvcache):
    names = {SWAKVPool: ("FULL", "SWA"), HybridPool: ("FULL", "SWA", "MAMBA")}
    return {SimpleNamespace(name=name).name for name in names.get(type(kvcache), ("FULL",))}


def hashes(count, seed="prompt"):
    """A chain of page keys."""
    chain = [hashlib.sha256(seed.encode()).hexdigest()]
    while len(chain) < count:
        chain.append(hashlib.sha256(bytes.fromhex(chain[-1])).hexdigest())
    return chain


def slots(pages, unit=PAGE):
    """Token slots of these pages."""
    return numpy.concatenate([numpy.arange(page * unit, (page + 1) * unit) for page in pages])


class Engine:
    """One worker with its linker. Patience is long where the real one's is short: tests may wait
    for a busy machine."""

    def __init__(self, folder, socket, kvcache=None, pages=64, arguments=None, more_params=None,
                 **extra):
        from kvsidecar.sglang import Linker
        self.kvcache = kvcache or MHATokenToKVPool(pages)
        self.params = params(self.kvcache, **(more_params or {}))
        self.linker = Linker(
            arguments or server_args(folder), self.params, components=components(self.kvcache),
            extra_config={"socket": socket, "lookup_us": 100_000, "load_timeout_s": 20, **extra})
        self._requests = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.linker.close()

    def tensors(self, pool="kv"):
        entry = self.linker.pools[PoolName(pool)]
        return [buffer for component in entry.components for buffer in component]

    def fill(self, seed):
        generator = numpy.random.default_rng(seed)
        for pool in self.linker.pools:
            for tensor in self.tensors(pool):
                tensor.array[:] = generator.integers(0, 256, tensor.shape, numpy.uint8)

    def wipe(self):
        for pool in self.linker.pools:
            for tensor in self.tensors(pool):
                tensor.array[:] = 0xA5

    def read(self, pages, pool="kv"):
        """The bytes of each page, buffer by buffer."""
        unit = 1 if pool == "mamba" else PAGE
        rows = slots(pages, unit)
        return [tensor.array[rows].copy() for tensor in self.tensors(pool)]

    # SGLang's calls.

    def offload(self, keys, pages, swa=(), mamba=None, kv=True):
        """swa: the last pages' places in that pool; mamba: the state at the end."""
        transfers = []
        if kv:
            transfers.append(PoolTransfer(PoolName.KV, device_indices=slots(pages), keys=keys))
        if len(swa):
            transfers.append(PoolTransfer(PoolName.SWA, device_indices=slots(swa),
                                          keys=keys[-len(swa):]))
        if mamba is not None:
            transfers.append(PoolTransfer(PoolName.MAMBA, device_indices=numpy.array([mamba]),
                                          keys=keys[-1:]))
        return self.linker.offload(transfers)

    def offloaded(self, *arguments, **more):
        """Whether all of it was stored, as SGLang hears it."""
        assert self.offload(*arguments, **more)
        return self.pop()

    def pop(self):
        wait_until(self.linker.num_completed_offloads)
        return self.linker.pop_completed_offload()

    def _transfers(self, keys):
        names = [PoolName.KV, *(name for name in (PoolName.SWA, PoolName.MAMBA)
                                if name in self.linker.pools)]
        tails = {PoolName.KV: len(keys), PoolName.SWA: WINDOW, PoolName.MAMBA: 1}
        return [PoolTransfer(name, keys=keys[-tails[name]:]) for name in names]

    def lookup(self, keys, rid="r"):
        return self.linker.lookup(rid, self._transfers(keys))

    def found(self, keys, rid="r"):
        """The lookup's answer, asked for until there is one."""
        return wait_until(lambda: self.lookup(keys, rid))

    def load(self, keys, pages, swa=(), mamba=None, rid="r"):
        indices = {PoolName.KV: slots(pages),
                   PoolName.SWA: slots(swa) if len(swa) else None,
                   PoolName.MAMBA: None if mamba is None else numpy.array([mamba])}
        transfers = self._transfers(keys)
        for transfer in transfers:
            transfer.device_indices = indices[transfer.name]
        return self.linker.load(rid, transfers)

    def forward(self):
        """Starts what is queued and reads layer by layer; (index, whether all of it landed)."""
        index = self.linker.start_layer_wise_loading()
        self.linker.layer_done_counter.set_consumer(index)
        for layer in range(LAYERS):
            self.linker.layer_done_counter.wait_until(layer)
        return index, self.linker.finish_layer_wise_loading(index)


PAGES, OTHERS = list(range(1, 9)), list(range(21, 29))  # of eight keys, and where they go


def eight_keys(seed="prompt"):
    return hashes(len(PAGES), seed)


def loads_right(engine, rid):
    """Finds what was stored of PAGES, loads it elsewhere and has the same bytes."""
    want = engine.read(PAGES)
    assert engine.found(eight_keys(), rid) == list(range(1, 9))
    assert engine.load(eight_keys(), OTHERS, rid=rid) and engine.forward()[1]
    return all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def loading_threads():
    return [thread for thread in threading.enumerate() if thread.name == "kvsidecar-loads"]


def sessions(daemon):
    """Of engines, in the daemon."""
    from kvsidecar import Client
    with Client(daemon.socket) as operator:
        return operator.stat().result().json()["sessions"] - 1


def wait_until(condition):
    """Its value as soon as it is true; what it waits for is another process's doing."""
    from waiting import eventually
    return eventually(condition, "it comes", seconds=ANSWER_S)


def in_thread(call):
    """Runs it beside the test; returns a function that waits for its result."""
    told = []
    thread = threading.Thread(target=lambda: told.append(call()), daemon=True)
    thread.start()

    def result():
        thread.join(ANSWER_S)
        assert told, "it never returned"
        return told[0]

    result.running = thread.is_alive
    return result
