# SPDX-License-Identifier: Apache-2.0
"""Door A: SGLang's HiCache storage backend. --hicache-storage-backend dynamic with the module
kvsidecar.sglang and the class HiCache.

SGLang calls from a few threads of its own (queries, reads, backups) and at start and for queries of
a few paths from its scheduler. No method raises but the constructor, and none waits without limit;
what is wrong is said once in the log and is a miss or a page that wasn't stored.
"""
from __future__ import annotations

import functools
import logging
import math
import time
from typing import Any, Callable, Dict, List, Sequence

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolTransferResult

from ..errors import Misuse
from .calls import Calls
from .facts import Facts, facts_of_process
from .hicache_settings import TRANSFER_MOST_S, WHERE, HiCacheSettings
from .hits import NOTHING, Answer, Asked, Hits, names_of
from .identity import Engine, engine_of
from .page_numbers import pack_hashes, page_numbers
from .pools import Pools
from .ranks import Ranks
from .session import Session
from .storage_stats import StorageStats
from .transfers import Transfers
from .whole_pages import WholePages

logger = logging.getLogger("sglang.kvsidecar")

CLEAR_S = 2.0  # SGLang's scheduler waits meanwhile
CLOSE_S = 5.0  # for calls in progress, and for gets that are being copied

Failure = Callable[..., Any]


def _never_raises(failure: Failure) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """failure(*arguments) is the answer where the method has raised, the reason is said once, and
    after close()."""
    def around(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def guarded(self: "HiCache", *arguments: Any, **named: Any) -> Any:
            if not self.calls.enter():
                return failure(*arguments, **named)
            try:
                return method(self, *arguments, **named)
            except Misuse as error:
                self.session.say_once(f"{method.__name__}: {error}")
            except Exception as error:
                self.session.say_once(f"{method.__name__} failed: {type(error).__name__} {error}",
                                      logging.ERROR)
                logger.debug("kvsidecar: %s failed", method.__name__, exc_info=True)
            finally:
                self.calls.leave()
            return failure(*arguments, **named)
        return guarded
    return around


def _misses(keys: Sequence[str], *_: Any, **__: Any) -> List[bool]:
    return [False] * len(keys or ())


def _pool_misses(transfers: Sequence[Any], *_: Any, **__: Any) -> Dict[str, List[bool]]:
    return {transfer.name: [False] * len(transfer.keys or ()) for transfer in transfers}


def pool_name(name: Any) -> str:
    """PoolName is an open set: whatever a release calls a pool."""
    return str(getattr(name, "value", name))


def ranks_of(config: Any, facts: Any) -> Ranks:
    """Of a HiCacheStorageConfig."""
    return Ranks(config.tp_rank, config.tp_size, getattr(config, "pp_rank", 0),
                 getattr(config, "pp_size", 1), getattr(config, "attn_cp_rank", 0),
                 getattr(config, "attn_cp_size", 1), int(facts.get("nnodes", 1) or 1) > 1)


class HiCache(HiCacheStorage):  # type: ignore[misc]  # SGLang has no types of its own
    """One per rank, made when SGLang attaches the backend and closed when it detaches it."""

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        """Raises Misuse for a wrong key of the extra config, and for nothing else. Waits at most
        connect_timeout for a daemon; without one everything is a miss until there is one. Reads the
        model's files to tell its weights apart."""
        self.settings = HiCacheSettings.read(storage_config.extra_config)
        self.calls = Calls()
        facts = self._facts = facts_of_process()
        ranks = ranks_of(storage_config, facts)
        replicated = bool(storage_config.is_mla_model)
        self._loads = self._first_load = facts.loads()
        self._engine_of: Callable[[Facts], Engine] = functools.partial(
            engine_of, ranks=ranks, settings=self.settings, door="hicache",
            model_name=getattr(storage_config, "model_name", None))
        engine = self._engine_of(facts)
        split = 1
        if getattr(storage_config, "should_split_heads", False):
            split = int(storage_config.tp_lcm_size) // ranks.tp_size
        # The last thing that can fail: nobody closes what was never made.
        self.session = Session(
            self.settings, f"sglang hicache tp {ranks.tp_rank} pp {ranks.pp_rank}",
            version=facts.text("weight_version"), staging_bytes=self.settings.staging_bytes)
        for hint in engine.hints:
            self.session.say_once(hint)
        if not self.settings.interface_v1:
            self.session.say_once(f'{WHERE} has no "interface_v1": 1, so that SGLang copies each '
                                  "page through Python; add it")
        self.stats = StorageStats(bool(storage_config.enable_storage_metrics))
        self._pools = Pools(self.session, engine, replicated, split,
                            in_place=self.settings.interface_v1,
                            staging_bytes=self.settings.staging_bytes)
        self._hits = Hits(self.session, self.settings)
        self._transfers = Transfers(self.session, self.settings, self.stats)
        self._whole = WholePages(self.session, engine, self.settings, self._pools)
        self._tell(engine)

    def _tell(self, engine: Engine) -> None:
        self.session.announce(f"HiCache stores {engine.common['model']}, revision "
                              f"{engine.common['revision']}")

    # Host pools. SGLang's main thread; each waits at most attach_timeout a call to the daemon.

    @_never_raises(lambda *_, **__: None)
    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The KV pool, or an anchor without bytes. The pool stays SGLang's and has to live as long
        as this object is attached."""
        super().register_mem_pool_host(mem_pool_host)
        anchor = getattr(mem_pool_host, "anchor_entry", None)
        self._pools.register("kv", mem_pool_host if anchor is None else anchor.host_pool)

    @_never_raises(lambda *_, **__: None)
    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """Any pool, KV among them; drafts may come when the engine already runs."""
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._pools.register(pool_name(host_pool_name), host_pool)

    def on_host_pools_registered(self) -> None:
        """Nothing is left to do then: each pool is ready as it comes."""

    # Queries. Any thread, at times the scheduler's: at most lookup_deadline, then nothing is
    # stored.

    @_never_raises(lambda *_, **__: 0)
    def batch_exists(self, keys: List[str], extra_info: Any = None) -> int:
        """Pages of KV that are stored whole, from the first on. They are held for lease_s and
        brought into the daemon's host pool."""
        return self._ask(list(keys), ()).longest if keys else 0

    @_never_raises(lambda *_, **__: PoolTransferResult(0, {}))
    def batch_exists_v2(self, keys: List[str], pool_transfers: Any = None,
                        extra_info: Any = None) -> Any:
        """The longest prefix that all these pools and KV can restore, and all the lengths that can
        be restored where the release takes them. A pool's own verdict is given only where all is
        stored: the daemon answers for all pools at once."""
        transfers = list(pool_transfers or ())
        asked = list(keys)
        answer = self._ask(asked, transfers) if asked else NOTHING
        pools = {transfer.name: answer.longest for transfer in transfers} \
            if asked and answer.longest == len(asked) else {}
        result = PoolTransferResult(answer.longest, pools)
        if hasattr(result, "restorable_prefix_pages"):
            result.restorable_prefix_pages = answer.restorable
        return result

    def _follow(self) -> int:
        """Each call sees first whether SGLang has other weights now. As Facts.loads."""
        loads = self._facts.loads()
        self.session.follow(self._facts.text("weight_version"), loads - self._first_load)
        return loads

    def _ask(self, keys: List[str], transfers: Sequence[Any]) -> Answer:
        self._follow()
        asked = []
        kv = self._pools.get("kv")
        if kv is None:
            self.session.say_once("pool kv isn't registered: nothing counts as stored")
            return NOTHING
        if not kv.logical:
            asked.append(Asked("kv", names_of(kv) or ("",), 0))
        for transfer in transfers:
            name, policy = pool_name(transfer.name), pool_name(transfer.hit_policy)
            if name == "kv" or policy == "block_groups":  # of its own, never gates KV's hit
                continue
            names = names_of(self._pools.get(name))
            if names is None or policy not in ("all_pages", "trailing_pages"):
                self.session.say_once(f"pool {name} isn't registered, or its hit policy {policy} "
                                      "isn't known: prompts that need it count as not stored")
                return NOTHING
            asked.append(Asked(name, names, len(transfer.keys or ()) or 1
                               if policy == "trailing_pages" else 0))
        if not asked:
            return Answer(len(keys))
        turn = self.session.turn
        answer = self._hits.ask(pack_hashes(keys), asked)
        self._follow()
        return answer if turn == self.session.turn else NOTHING

    # Reading and storing. One thread each; at most get_timeout and set_timeout. A get writes
    # nothing after it has returned: at its deadline it takes back what the daemon hasn't begun and
    # waits for what is being copied, which ends at the latest with the daemon. A set returns at
    # once then.

    @_never_raises(_misses)
    def batch_get_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        """Whether each page's bytes are in its slots. False: the slots hold anything."""
        return self._moved("kv", list(keys), host_indices, self._transfers.get)

    @_never_raises(_misses)
    def batch_set_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        """Whether each page is stored; one that already is costs nothing."""
        return self._moved("kv", list(keys), host_indices, self._transfers.set)

    @_never_raises(_pool_misses)
    def batch_get_v2(self, transfers: List[Any], extra_info: Any = None) -> Dict[str, List[bool]]:
        """As batch_get_v1, for each pool's own keys."""
        return self._moved_all(transfers, self._transfers.get)

    @_never_raises(_pool_misses)
    def batch_set_v2(self, transfers: List[Any], extra_info: Any = None) -> Dict[str, List[bool]]:
        """As batch_set_v1, for each pool's own keys. SGLang stores KV last."""
        return self._moved_all(transfers, self._transfers.set)

    def _moved_all(self, transfers: Sequence[Any],
                   move: Callable[..., List[bool]]) -> Dict[str, List[bool]]:
        """All of them together have the time of one."""
        end = time.monotonic() + TRANSFER_MOST_S
        return {transfer.name: self._moved_or_missed(transfer, move, end)
                for transfer in transfers}

    def _moved_or_missed(self, transfer: Any, move: Callable[..., List[bool]],
                         end: float) -> List[bool]:
        keys = list(transfer.keys or ())
        try:
            return self._moved(pool_name(transfer.name), keys, transfer.host_indices, move, end)
        except Misuse as error:  # of one pool; the others go on
            self.session.say_once(f"pool {pool_name(transfer.name)}: {error}")
            return [False] * len(keys)

    def _moved(self, name: str, keys: List[str], host_indices: Any,
               move: Callable[..., List[bool]], end: float = math.inf) -> List[bool]:
        if not keys:
            return []
        self._follow()
        pool = self._pools.get(name)
        if pool is None:
            raise Misuse(f"pool {name} isn't registered; {len(keys)} pages are left out")
        if pool.logical:
            return [True] * len(keys)
        if not pool.usable:
            return [False] * len(keys)
        if int(pool.host.page_size) != pool.tokens:
            raise Misuse(f"pool {name} has pages of {pool.host.page_size} tokens now, it had "
                         f"{pool.tokens} when it was registered; attach anew")
        if host_indices is None:
            raise Misuse(f"pool {name} has no host_indices for {len(keys)} keys")
        packed = pack_hashes(keys)
        pages = page_numbers(host_indices, len(keys), pool.tokens, pool.pages)
        if move == self._transfers.set:
            return move(pool, packed, pages, host_indices, end)
        turn = self.session.turn
        try:
            flags = move(pool, packed, pages, host_indices, end)
        finally:
            self._hits.read(name, packed)
        self._follow()
        return flags if turn == self.session.turn else [False] * len(keys)

    # The interface of before v1: pages as flat tensors.

    @_never_raises(lambda *_, **__: None)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """The page's tensor, target_location with its bytes; None: it isn't stored."""
        self._follow()
        return self._whole.get([key], [target_location])[0]

    @_never_raises(lambda keys, *_, **__: [None] * len(keys or ()))
    def batch_get(self, keys: List[str], target_locations: Any = None,
                  target_sizes: Any = None) -> List[Any]:
        """As get, of each key."""
        self._follow()
        return self._whole.get(list(keys), target_locations)

    @_never_raises(lambda *_, **__: False)
    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        self._follow()
        return self._whole.set([key], [value])

    @_never_raises(lambda *_, **__: False)
    def batch_set(self, keys: List[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        """Whether all of them are stored."""
        self._follow()
        return self._whole.set(list(keys), values)

    @_never_raises(lambda *_, **__: False)
    def exists(self, key: str) -> bool:
        self._follow()
        packed = pack_hashes([key])
        names = self._whole.names_for(packed)
        if names is None:
            return self._ask([key], ()).longest == 1
        return any(self._hits.ask(packed, [Asked("kv", [name], 0)]).longest == 1 for name in names)

    # The rest.

    @_never_raises(lambda *_, **__: None)
    def clear(self) -> None:
        """Forgets all pages of this model and geometry, for all engines that share them: their
        attachments end, and they go on with their own clear. After an update that gave the weights
        another version or came from other files this engine goes over to the pages of those
        instead, and the others keep theirs. Waits at most CLEAR_S; reads the model's files after an
        update."""
        loads = self._follow()
        if loads == self._loads:
            self.session.clear(CLEAR_S)
            return
        engine = self._engine_of(self._facts)
        self._pools.engine = self._whole.engine = engine
        self.session.clear(CLEAR_S, engine.common)
        self._loads = loads
        self._tell(engine)

    @_never_raises(lambda *_, **__: None)
    def get_stats(self) -> Any:
        """Since the last call: pages and GB/s of each pool's transfers."""
        return self.stats.take()

    def close(self) -> None:
        """Gives host memory back to SGLang: waits at most CLOSE_S for calls in progress, and so
        long for what is being copied. Every later call is a miss. Never raises. Idempotent."""
        if not self.calls.end(self._close, CLOSE_S):
            logger.error("kvsidecar: a get is still being copied, so that its host pages may be "
                         "written until the daemon goes on or ends")

    def _close(self) -> None:
        try:
            self.session.close(CLOSE_S)
        except Exception:  # for whoever has made the last call
            logger.exception("kvsidecar: the client couldn't be closed")
