# SPDX-License-Identifier: Apache-2.0
"""Real device pools of SGLang with kvsidecar's linker over them, without an engine: what SGLang's
tree asks of a linker, a test asks here. Bytes are read by SGLang's own addresses of a page.

As a program it is one rank of several, told over stdin what to do and answering over stdout, both
in lines of JSON:   linker_worker.py RANK SIZE STORE
"""
import ctypes
import hashlib
import json
import os
import sys
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool
from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer
from sglang.srt.mem_cache.memory_pool import (
    DSATokenToKVPool, HybridLinearKVPool, HybridReqToTokenPool, MHATokenToKVPool, MLATokenToKVPool)
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.runtime_context import get_context, get_parallel

from kvsidecar.sglang import Linker

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "harness"))

from waiting import eventually  # noqa: E402

PAGE, PAGES, STATES = 64, 40, 8
LAYERS, HEADS, DIM, LATENT, ROPE, INDEX = 4, 2, 64, 128, 64, 128
TYPE = torch.bfloat16
SLOTS = PAGES * PAGE
WINDOW_LAYERS, FULL_LAYERS = [0, 2], [1, 3]
STATE_LAYERS = [0, 2]
ANSWER_S = 60
ALONE = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_tp_rank=0, attn_dp_rank=0,
             attn_dcp_rank=0, attn_dcp_size=1)


def _states():
    kinds = SimpleNamespace(
        shape=SimpleNamespace(conv=[(32, 3), (16, 3)], temporal=(4, 8, 16)),
        dtype=SimpleNamespace(conv=TYPE, temporal=torch.float32), is_kda=False)
    return HybridReqToTokenPool(
        size=4, mamba_size=STATES, mamba_spec_state_size=0, max_context_len=1024, device="cpu",
        enable_memory_saver=False, cache_params=kinds, mamba_layer_ids=STATE_LAYERS,
        enable_mamba_extra_buffer=False)


def _window():
    return SWAKVPool(size=SLOTS, size_swa=SLOTS, page_size=PAGE, dtype=TYPE, head_num=HEADS,
                     head_dim=DIM, swa_attention_layer_ids=WINDOW_LAYERS,
                     full_attention_layer_ids=FULL_LAYERS, device="cpu")


def _linear(requests, **kind):
    return HybridLinearKVPool(
        size=SLOTS, dtype=TYPE, page_size=PAGE, head_num=HEADS, head_dim=DIM,
        full_attention_layer_ids=FULL_LAYERS, device="cpu", mamba_pool=requests.mamba_pool, **kind)


def _compressed():
    """Attention over pages of 256 tokens: a window, and tokens compressed 4 and 128 to one."""
    page = 256
    return DeepSeekV4TokenToKVPool(
        max_num_reqs=4, swa_size=PAGES * page, c4_size=PAGES * page // 4,
        c128_size=PAGES * page // 128, c4_state_pool_size=PAGES * 8, c128_state_pool_size=256,
        page_size=page, swa_page_size=page, dtype=torch.float8_e4m3fn,
        c4_state_dtype=torch.float32, c128_state_dtype=torch.float32, qk_nope_head_dim=448,
        qk_rope_head_dim=64, indexer_head_dim=128, layer_num=LAYERS, device="cpu",
        enable_memory_saver=False, compression_ratios=[0, 4, 128, 4], end_layer=LAYERS)


def build(kind):
    """(KV pool, request pool) of one kind of model."""
    requests = _states() if "mamba" in kind else SimpleNamespace()
    pools = {
        "mha": lambda: MHATokenToKVPool(SLOTS, PAGE, TYPE, HEADS, DIM, LAYERS, "cpu", False),
        "mla": lambda: MLATokenToKVPool(SLOTS, PAGE, TYPE, LATENT, ROPE, LAYERS, "cpu", False),
        "dsa": lambda: DSATokenToKVPool(SLOTS, PAGE, LATENT, TYPE, ROPE, LAYERS, "cpu", INDEX,
                                        False, LATENT + ROPE),
        "swa": _window,
        "mha+mamba": lambda: _linear(requests),
        "mla+mamba": lambda: _linear(requests, use_mla=True, kv_lora_rank=LATENT,
                                     qk_rope_head_dim=ROPE),
        "swa+mamba": _window,
        "dsv4": _compressed,
    }
    return pools[kind](), requests


KINDS = ("mha", "mla", "dsa", "swa", "mha+mamba", "mla+mamba", "swa+mamba", "dsv4")


def has_window(kind):
    return "swa" in kind or kind == "dsv4"


def components(kind):
    found = {ComponentType.FULL}
    found |= {ComponentType.SWA} if has_window(kind) else set()
    return found | ({ComponentType.MAMBA} if "mamba" in kind else set())


def hashes(count, seed=""):
    chain = []
    for _ in range(count):
        chain.append(hashlib.sha256(f"{chain[-1] if chain else seed}".encode()).hexdigest())
    return chain


class Worker:
    """Of a rank. What lies in which pages is the test's: the first `count` pages from `first` on;
    windows are the same pages, a state lies in the slot `state`."""

    def __init__(self, kind, model, group=None, **extra):
        get_context().override_server_args(device="cpu").install()
        self._parallel = get_parallel().override(**ALONE)
        self._parallel.__enter__()
        self.kind = kind
        self.kvcache, requests = build(kind)
        self.page = self.kvcache.page_size
        params = CacheInitParams(
            disable=False, req_to_token_pool=requests, page_size=self.page, tp_cache_group=group,
            token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: self.kvcache))
        arguments = SimpleNamespace(model_path=model, device="cpu", nnodes=1)
        self.linker = Linker(arguments, params, components=components(kind), extra_config={
            "lookup_us": 100_000, **extra})
        self.counter = self.linker.layer_done_counter

    def close(self):
        self.linker.close()
        self._parallel.__exit__(None, None, None)

    # Bytes, by SGLang's own addresses.

    def _pieces(self, pool, first, count, state):
        entry = self.linker.pools[pool]
        if pool == PoolName.MAMBA:
            first, count, unit = state, 1, 1
        else:
            unit = self.page
        indices = torch.arange(first * unit, (first + count) * unit)
        return list(zip(*entry.get_page_buffer_meta(indices)[:2]))

    def read(self, first, count, state=1):
        """{pool: digest} of these pages."""
        return {str(pool): hashlib.sha256(b"".join(
            ctypes.string_at(*piece)
            for piece in self._pieces(pool, first, count, state))).hexdigest()
            for pool in self.linker.pools}

    def fill(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self._each(lambda row: row.random_(0, 256, generator=generator))

    def wipe(self):
        self._each(lambda row: row.fill_(0xA5))

    def _each(self, change):
        for entry in self.linker.pools.values():
            for tensor in entry.kv_buffer:
                for row in tensor:
                    change(row.view(torch.uint8))

    # SGLang's calls.

    def _transfers(self, keys, first, count, state, load):
        window = min(2, count) if load else count
        transfers = [PoolTransfer(PoolName.KV, keys=keys, device_indices=torch.arange(
            first * self.page, (first + count) * self.page))]
        if has_window(self.kind):
            begin = first + count - window
            transfers.append(PoolTransfer(
                PoolName.SWA, keys=keys[-window:],
                device_indices=torch.arange(begin * self.page, (begin + window) * self.page)))
        if "mamba" in self.kind:
            transfers.append(PoolTransfer(PoolName.MAMBA, keys=keys[-1:],
                                          device_indices=torch.tensor([state])))
        return transfers

    def offload(self, first, count, seed="", state=1):
        """Whether all of it was stored."""
        assert self.linker.offload(self._transfers(hashes(count, seed), first, count, state, False))
        self.until(self.linker.num_completed_offloads)
        return self.linker.pop_completed_offload()

    def lookup(self, count, seed="", rid="r"):
        transfers = self._transfers(hashes(count, seed), 0, count, 0, True)
        for transfer in transfers:
            transfer.device_indices = None
        return self.linker.lookup(rid, transfers)

    def found(self, count, seed="", rid="r"):
        self.until(lambda: self.lookup(count, seed, rid))
        return self.lookup(count, seed, rid)

    def load(self, first, count, seed="", state=2, rid="r"):
        """Whether a forward that reads layer by layer got all of it."""
        keys = hashes(count, seed)
        assert self.linker.load(rid, self._transfers(keys, first, count, state, True))
        index = self.linker.start_layer_wise_loading()
        self.counter.set_consumer(index)
        for layer in range(self.counter.num_layers):
            self.counter.wait_until(layer)
        return self.linker.finish_layer_wise_loading(index)

    def reset(self):
        self.linker.reset()

    @staticmethod
    def until(condition):
        eventually(condition, "it comes", seconds=ANSWER_S)


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(sys.argv[3], size), rank=rank, world_size=size)
    worker = None
    for line in sys.stdin:
        command = json.loads(line)
        name, arguments = command["name"], command["arguments"]
        if name == "make":
            if worker is not None:
                worker.close()
            worker = Worker(group=torch.distributed.group.WORLD, **arguments)
            answer = True
        else:
            answer = getattr(worker, name)(**arguments)
        print(json.dumps({"value": answer}), flush=True)
    if worker is not None:
        worker.close()


if __name__ == "__main__":
    main()
