# SPDX-License-Identifier: Apache-2.0
"""SGLang's real HiCache controllers over real pools, without an engine: what its radix cache does
with them, a test does here step by step.

    with Rig("recording:Recording", kinds=("mha", "swa"), layout="page_first") as rig:
        rig.fill(seed=1)
        want = rig.read(slots)
        done = rig.backup(tokens, slots)     # device → host → storage, to the acknowledgement
        rig.wipe()
        got = rig.prefetch(tokens)           # storage → host
        rig.load(got, other_slots)           # host → device
        assert rig.read(other_slots) == want
"""
import contextlib
import dataclasses
import queue
import random

import pools
import torch
from pools import PAGE, PoolName
from sglang.srt.managers.cache_controller import CacheOperation, HiCacheController
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolTransfer
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry
from sglang.srt.runtime_context import get_context, get_parallel

ANSWER_S = 30
WINDOW = 2  # pages of sliding-window attention that a backup ends with
TRAILING = (PoolName.SWA, PoolName.MAMBA)


def _once():
    """What a worker has set up before it makes a controller."""
    if not torch.distributed.is_initialized():
        get_context().override_server_args(device="cpu").install()
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0,
                                             world_size=1)


class _Slots:
    """Stands for the device pools' allocator: slots are the test's to choose."""

    def __init__(self, pool):
        self._pool = pool

    def get_kvcache(self):
        return self._pool

    def set_hicache_transfer_done_event(self, *_):
        pass


@dataclasses.dataclass
class Slots:
    """Which slots of each pool: {pool name: tensor}."""
    of: dict

    def __getitem__(self, name):
        return self.of[name]


@dataclasses.dataclass
class BackedUp:
    hashes: list
    tokens: int  # that were acknowledged
    pool_hits: dict  # of side pools: {name: pages}


@dataclasses.dataclass
class Fetched:
    hit_tokens: int  # what the query found
    tokens: int  # what arrived
    pool_hits: dict
    acks: list  # (tokens, pool hits, whole request) of each acknowledgement
    host: Slots


class Rig:
    """One worker's controller. backend: "module:Class". hybrid: SGLang's controller for several
    pools, which its engine always uses; by default only where there are several. rank of ranks: of
    tensor parallelism, as SGLang tells them; the other ranks aren't there, nor asked. parallel:
    other fields of SGLang's topology."""

    def __init__(self, backend, kinds=("mha",), layout="page_first", hybrid=None, pages=40,
                 allocator="default", extra=None, model="org/tiny", interface_v1=1, rank=0, ranks=1,
                 **parallel):
        _once()
        module, _, name = backend.partition(":")
        config = {"backend_name": name, "module_path": module, "class_name": name,
                  "interface_v1": interface_v1, **(extra or {})}
        with contextlib.ExitStack() as stack:
            stack.enter_context(get_parallel().override(**{
                **dict(tp_rank=rank, tp_size=ranks, attn_tp_rank=rank, attn_tp_size=ranks,
                       moe_tp_size=ranks, pp_rank=0, pp_size=1, attn_dp_rank=0, attn_dcp_rank=0),
                **parallel}))
            self.parts = pools.build(kinds, pages, layout, allocator)
            self.kv = self.parts[PoolName.KV]
            self.hybrid = len(self.parts) > 1 if hybrid is None else hybrid
            self.controller = self._make(layout, model, config)
            self._stack = stack.pop_all()

    def _make(self, layout, model, config):
        common = dict(write_policy="write_through", io_backend=pools.LAYOUTS[layout],
                      storage_backend="dynamic", model_name=model,
                      storage_backend_extra_config=config)
        group, allocator = torch.distributed.group.WORLD, _Slots(self.kv.device)
        if not self.hybrid:
            return HiCacheController(allocator, self.kv.host, PAGE, group, None, **common)
        entries = [PoolEntry(part.name, part.host, part.device, self._layer_of(part),
                             is_primary_index_anchor=part is self.kv)
                   for part in self.parts.values()]
        return HybridCacheController(allocator, HostPoolGroup(entries), PAGE, group, None,
                                     transfer_layer_id_max=pools.LAYERS, **common)

    @staticmethod
    def _layer_of(part):
        layers = getattr(part.host, "num_mamba_layers", pools.LAYERS)
        return lambda layer: layer if layer < layers else None

    @property
    def backend(self):
        return self.controller.storage_backend

    # Slots and bytes.

    def slots(self, first_page, pages, state=1):
        """Of `pages` pages from that one on; of a sliding window its own pages, of the states one.
        Page 0 and state 0 are SGLang's own padding."""
        of = {}
        for name in self.parts:
            if name == PoolName.MAMBA:
                of[name] = torch.tensor([state])
            else:
                count = min(WINDOW, pages) if name == PoolName.SWA else pages
                of[name] = torch.arange(first_page * PAGE, (first_page + count) * PAGE)
        return Slots(of)

    def fill(self, seed):
        for number, part in enumerate(self.parts.values()):
            part.fill(1000 * seed + number)

    def wipe(self):
        """Nothing is left on the device or on the host."""
        for part in self.parts.values():
            part.wipe()
            part.wipe_host()

    def read(self, slots):
        """{pool name: [bytes of each layer]} on the device, comparable with ==."""
        return {name: [rows.numpy().tobytes() for rows in part.read(slots[name])]
                for name, part in self.parts.items()}

    # Transfers as the radix cache words them.

    def _side(self, device=None, host=None, hashes=None):
        """One for each side pool; hashes: of the pages of the whole transfer."""
        transfers = []
        for name in self.parts:
            if name == PoolName.KV:
                continue
            if name not in TRAILING:
                transfers.append(PoolTransfer(name, hit_policy=PoolHitPolicy.ALL_PAGES,
                                              indices_from_pool=PoolName.KV))
                continue
            window = 1 if name == PoolName.MAMBA else WINDOW
            transfers.append(PoolTransfer(
                name, hit_policy=PoolHitPolicy.TRAILING_PAGES,
                device_indices=device[name] if device else None,
                host_indices=host[name] if host else None,
                keys=hashes[-window:] if hashes else None))
        return transfers

    def _answer(self, answers, what):
        try:
            return answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise AssertionError(f"no {what} within {ANSWER_S} s") from None

    def hashes(self, tokens, last=None):
        return self.controller.get_hash_str(tokens, last, page_size=PAGE)

    def write(self, slots):
        """Device → host; the host's slots."""
        more = {"extra_pools": self._side(device=slots)} if self.hybrid else {}
        host = {PoolName.KV: self.controller.write(slots[PoolName.KV], **more)}
        assert host[PoolName.KV] is not None, "the host pool is full"
        for transfer in more.get("extra_pools", ()):
            host[transfer.name] = transfer.host_indices
        return Slots(host)

    def store(self, tokens, host, prefix_keys=None, last_hash=None):
        """Host → storage, to its acknowledgement."""
        hashes = self.hashes(tokens, last_hash)
        more = {"extra_pools": self._side(host=host, hashes=hashes)} if self.hybrid else {}
        self.controller.write_storage(host[PoolName.KV], tokens, hashes, prefix_keys=prefix_keys,
                                      **more)
        ack = self._answer(self.controller.ack_backup_queue, "acknowledgement of a backup")
        result = getattr(ack, "pool_storage_result", None)
        return BackedUp(hashes, ack.completed_tokens,
                        _named(result.extra_pool_hit_pages if result else None))

    def backup(self, tokens, slots, prefix_keys=None, last_hash=None):
        """Device → host → storage; the host's slots are free again afterwards."""
        host = self.write(slots)
        done = self.store(tokens, host, prefix_keys, last_hash)
        self.free(host)
        return done

    def free(self, host):
        for name, slots in host.of.items():
            if name in TRAILING or name == PoolName.KV:
                self.parts[name].host.free(slots)

    def query(self, tokens, prefix_keys=None, last_hash=None):
        """The operation of a prefetch whose hits are known."""
        rid, more = "request", {}
        if self.hybrid:
            rid = CacheRequestHandle(rid, 0)
            host = {name: self.parts[name].host.alloc(self._tail_slots(name))
                    for name in TRAILING if name in self.parts}
            pages = len(tokens) // PAGE
            more["extra_pools"] = self._side(host=host, hashes=["__placeholder__"] * pages)
        self.controller.prefetch(rid, tokens, last_hash, prefix_keys, **more)
        return self._answer(self.controller.prefetch_hit_queue, "answer to a query")

    def _tail_slots(self, name):
        return 1 if name == PoolName.MAMBA else WINDOW * PAGE

    def prefetch(self, tokens, prefix_keys=None, last_hash=None):
        """Storage → host. Where nothing is found, nothing is fetched."""
        asked = self.query(tokens, prefix_keys, last_hash)
        side = {one.name: one for one in getattr(asked, "pool_transfers", None) or ()}
        hit = asked.storage_hit_count
        if not hit:
            return Fetched(0, 0, {}, [], Slots({name: one.host_indices
                                                for name, one in side.items()}))
        asked.host_indices = self.controller.alloc_prefetch_host_buffers(asked, hit)
        assert asked.host_indices is not None, "the host pool is full"
        self.controller.prefetch_buffer.put(asked)
        acks = []
        while not acks or not acks[-1][2]:
            ack = self._answer(self.controller.ack_prefetch_queue, "acknowledgement of a prefetch")
            acks.append((ack.completed_tokens, _named(ack.pool_hits), bool(ack.completed_req)))
        pool_hits = {}
        for _, hits, _ in acks:
            pool_hits.update(hits)
        host = {PoolName.KV: asked.host_indices, **{
            name: asked.host_indices if one.indices_from_pool else one.host_indices
            for name, one in side.items()}}
        return Fetched(hit, max(tokens or 0 for tokens, _, _ in acks), pool_hits, acks, Slots(host))

    def load(self, fetched, slots):
        """Host → device, into these slots."""
        host = fetched.host[PoolName.KV]
        if self.hybrid:
            side = self._side(device=slots, host=fetched.host)
            assert self.controller.load(host, device_indices=slots[PoolName.KV],
                                        extra_pools=side) is not None
        else:
            self.controller.load_queue.append(CacheOperation(host, slots[PoolName.KV], -1))
        self.controller.start_loading()

    # Life.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with self._stack:
            self.controller.detach_storage_backend()
            for part in self.parts.values():
                part.host.destroy()


def tokens_of(seed, pages):
    """The tokens of so many pages, the same for the same seed."""
    words = random.Random(seed)
    return [words.randrange(3, 1000) for _ in range(pages * PAGE)]


def _named(hits):
    """Pools that have hits, by their plain names."""
    return {str(getattr(name, "value", name)): pages for name, pages in (hits or {}).items()
            if pages}
