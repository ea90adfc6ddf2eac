# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: looks up, orders loads and stores, and never waits. All of it runs in the
engine core's one thread, whose every microsecond delays all requests."""
from __future__ import annotations

import logging
import uuid
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from . import eras
from .adapters import PENDING, USABLE, Adapters
from .agenda import Agenda
from .events import Events
from .identity import GroupSpace, adapter_choices, sharing_hints
from .lookups import Hit, Lookups
from .metadata import Load, StepMetadata, StepReport, Store
from .metrics import Recorder
from .pages import NO_KEYS, Geometry, Keys, Pages
from .parts import Bytes, expected_parts, spaces_of, world_size
from .requests import Requests, Track, offers_still_there, without_null
from .session import AT_ONCE_S, Session
from .settings import Settings
from .tickets import Tickets

logger = logging.getLogger("vllm.kvsidecar")

STEPS_A_REPORT = 16  # of the scheduler's time: telling it each step would cost more than it tells


class SchedulerSide:
    def __init__(self, vllm_config: Any, kv_cache_config: Any, settings: Settings) -> None:
        self._config, self._kv_config, self._settings = vllm_config, kv_cache_config, settings
        self._era = eras.current()
        spaces = spaces_of(vllm_config, kv_cache_config, settings,
                           expected_parts(vllm_config, kv_cache_config))
        self._geometry = Geometry(spaces, self._era.hash_block_size(vllm_config, kv_cache_config),
                                  self._era.hit_alignment(kv_cache_config))
        self.recorder = Recorder("scheduler")
        self.session = Session(settings, "vllm scheduler", uuid.uuid4().hex)
        self._spaces: Tuple[GroupSpace, ...] = tuple(s for s in spaces if s.kind != "none")
        self.session.attach(self._spaces, world_size(vllm_config))
        self._adapters = Adapters(lambda text: logger.warning("kvsidecar: %s", text),
                                  adapter_choices(vllm_config))
        mode = getattr(vllm_config.cache_config, "mamba_cache_mode", None)
        self._requests = Requests(self._geometry, self._adapters, mode == "all")
        self._agenda = Agenda(self._requests.due)
        self._lookups = Lookups(self.session, self._geometry, self.recorder)
        self._tables = self._era.BlockTables(self._geometry.spaces)
        self._events = Events(vllm_config, settings, spaces,
                              self._geometry.hash_block_size)
        self._tickets = Tickets(spaces, self._events)
        self._loads: List[Load] = []
        self._still = False  # the last step computed nothing
        # Data parallel replicas step together: others may wait for this one.
        self._alone = getattr(vllm_config.parallel_config, "data_parallel_size", 1) == 1
        self._returned: Set[str] = set()  # requests that wait for a step though their load is over
        self._life = self._detached = self._cleared = 0
        self._clearing: List[Any] = []
        self._clock = self._lookups.clock
        self._spent_ns = self._steps = 0
        self._pool: Any = None
        self._doubtful_for = 0  # steps
        self._can_load = settings.loads and (
            len(kv_cache_config.kv_cache_groups) == 1 or self._era.loads_several_groups)
        # Without the states of its recurrent layers no prefix of such a model can be restored.
        self._can_store = settings.stores and (
            not self._geometry.state_groups or mode == "all" or self._era.loads_several_groups)
        eagle = getattr(vllm_config.speculative_config, "use_eagle", lambda: False)() \
            if vllm_config.speculative_config is not None else False
        # A draft layer's last entry of a page depends on the token after it, which the key doesn't
        # name: as in vLLM's own prefix cache the last page of a hit is computed again.
        self._held_back = self._geometry.alignment if eagle else 0
        self._tell_once()

    def bind_pool(self, pool: Any) -> None:
        """vLLM's BlockPool: at a reset it tells whether vLLM could empty its own cache."""
        self._pool = pool

    def _tell_once(self) -> None:
        for hint in list(self._settings.hints) + sharing_hints(self._config, self._settings):
            logger.warning("kvsidecar: %s", hint)
        if self._settings.loads and not self._can_load:
            logger.warning("kvsidecar: this release of vLLM can't be told of a failed load of a "
                           "model with several KV cache groups: pages are stored, none is loaded; "
                           "use vLLM 0.30 or later")

    # Requests.

    def on_new_request(self, request: Any) -> None:
        began = self._clock()
        track = self._requests.add(request)
        if self._can_load and not skips_prefix(request):
            state, keys = self._requests.keys(track)
            if state == USABLE and any(k.count for k in keys.values()):
                self._lookups.arrived(request.request_id, keys)
        self._spent_ns += self._clock() - began

    def matched(self, request: Any, local: int) -> Tuple[Optional[int], bool]:
        began = self._clock()
        tokens = self._matched(request, local)
        self._spent_ns += self._clock() - began
        if tokens is None:
            return None, False
        return (tokens - local, True) if tokens > local else (0, False)

    def _matched(self, request: Any, local: int) -> Optional[int]:
        track = self._requests.add(request)
        track.local, track.places = local, {}
        # A scheduler that finds no blocks for a request looks at none behind it: what is loaded
        # there, holding the blocks, must be let on first, or nobody would ever go on.
        self._returned.discard(request.request_id)
        if self._returned and self._still and not self._era.lets_loaded_on_first:
            self.recorder.count("lookup_nones")
            return None
        if not self._can_load or self._clearing or skips_prefix(request):
            return 0
        state, keys = self._requests.keys(track)
        if state != USABLE:
            return None if state == PENDING and self._lookups.may_wait(request.request_id) else 0
        limit = self._geometry.usable_tokens(request.num_tokens, len(request.block_hashes))
        if local % self._geometry.alignment:
            return 0  # vLLM's own hit ends inside a page of some group: nothing fits behind it
        return self._lookups.matched(request.request_id, keys, local, limit - self._held_back,
                                     alone=self._alone and len(self._requests.tracks) == 1)

    def allocated(self, request: Any, blocks: Any, external: int) -> None:
        began = self._clock()
        track = self._requests.add(request)
        ids = blocks.get_block_ids()
        if not track.present:
            track.present = {size: self._lookups.known_present(request.request_id, size)
                             for size in self._geometry.by_size}
        hit = self._lookups.taken(request.request_id, external)
        if hit is None and external > 0:
            # Whatever was promised, vLLM waits for these tokens: a load that fails ends that.
            hit = Hit(track.local, track.local + external, (), {})
        if hit is not None:
            self._order(track, ids, hit)
        elif track.loading:  # the second call, after the load
            self._loaded(track)
        self._returned.discard(request.request_id)
        self._requests.given(track, ids)
        self._spent_ns += self._clock() - began

    def _order(self, track: Track, ids: Sequence[Sequence[int]], hit: Hit) -> None:
        request_id = track.request.request_id
        pages = []
        for space in self._geometry.spaces:
            begin, end = self._geometry.needed(space, hit.local, hit.tokens)
            keys = track.keys.get(space.tokens_per_page, NO_KEYS)
            wanted = Keys(keys.part(begin, end), keys.key_bytes, end - begin) \
                if end <= keys.count else Keys(bytes(end - begin), 1, end - begin)  # misses
            there = without_null(space.group, wanted, ids[space.group][begin:end], begin)
            if there is not None:
                pages.append(there[0])
        track.loading, track.places = hit.leases, hit.places
        self._loads.append(Load(request_id, hit.leases, tuple(pages)))

    def _loaded(self, track: Track) -> None:
        leases, track.loading = track.loading, ()
        if leases:
            self._lookups.release(leases)

    def finished(self, request: Any) -> None:
        request_id = request.request_id
        track = self._requests.drop(request_id)
        self._lookups.dropped(request_id)
        self._tables.drop(request_id)
        self._returned.discard(request_id)
        if track is not None:
            self._loaded(track)

    def hit_sources(self, request: Any, external: int) -> Dict[Any, int]:
        track = self._requests.tracks.get(request.request_id)
        return self._era.hit_sources(track.places) if track else {}

    # Steps.

    def build(self, output: Any) -> StepMetadata:
        began = self._clock()
        if self._lookups.unsettled:
            self._lookups.step()
        if self._clearing or self._lookups.cleared_by_others:
            self._see_clear()
        self._tables.update(output)
        meta = StepMetadata(self.session.nonce, self._life, self._detached, self._cleared,
                            loads=self._loads)
        self._loads = []
        if self._requests.fresh:
            self._requests.start(output)
        meta.touched = self._requests.touched(output) + self._era.copied_blocks(output)
        doubtful = self._doubtful(output)
        if self._can_store and not self._clearing and not doubtful:
            meta.stores = self._stores(output, meta.touched)
        self._requests.end_step()
        self._still = not output.num_scheduled_tokens
        self._steps += 1
        self._spent_ns += self._clock() - began
        if self._steps >= STEPS_A_REPORT or output.finished_req_ids:
            spun_ns, self._lookups.spun_ns = self._lookups.spun_ns, 0
            self.recorder.count("scheduler_ns", max(self._spent_ns - spun_ns, 0))
            self.recorder.count("scheduler_spin_ns", spun_ns)
            self.recorder.count("scheduler_steps", self._steps)
            self._steps = self._spent_ns = 0
        return meta

    def _doubtful(self, output: Any) -> bool:
        """Another connector loads within this step's forward: until its result is known, which is
        some steps later where they are scheduled ahead, what was computed may be of nothing."""
        self._doubtful_for -= 1
        if self._era.loads_in_forward(output, self._requests.loaded_by_others):
            self._doubtful_for = getattr(self._config, "max_concurrent_batches", 2)
        return self._doubtful_for > 0

    def _stores(self, output: Any, touched: Sequence[int]) -> List[Store]:
        stores: List[Store] = []
        tracks, fresh = self._requests.tracks, self._requests.fresh
        for req_id, end in self._agenda.whole(output):
            track = tracks[req_id]
            table = fresh.get(req_id) or self._tables.of(req_id)
            for pages, which in self._requests.whole_pages(track, end, table):
                stores.append(self._store(track, pages, which))
            self._agenda.again(req_id, end)
        if self._geometry.state_groups:
            for req_id, offers in self._era.boundary_states(output).items():
                if req_id in tracks:
                    track = tracks[req_id]
                    safe = offers_still_there(offers, set(touched), self._tables.of(req_id))
                    for pages, page in self._requests.boundary_pages(track, safe):
                        stores.append(self._store(track, pages, (page,)))
        return stores

    def _store(self, track: Track, pages: Pages, which: Sequence[int]) -> Store:
        ticket = self._tickets.issue(track.request, pages.group, which)
        tokens = self._geometry.page_tokens[pages.group]
        return Store(ticket, pages, which[0], -(-track.request.num_tokens // tokens))

    def heard(self, output: Any) -> None:
        """What the workers tell of a step."""
        began = self._clock()
        report = getattr(output, "kv_connector_worker_meta", None)
        if isinstance(report, StepReport):
            self._tickets.take(report)
            if report.stale_in == self._life and not self._clearing:
                self._lookups.cleared_by_others = True
            for request_id, failed in report.failed.items():
                self._lookups.forget_pages([key for _, key in failed])
                if request_id in self._requests.tracks:
                    self._lookups.close_request(request_id)
                    track = self._requests.tracks[request_id]
                    self._events.gone(track.request, failed,
                                      self._requests.content_id(track)[1] or b"")
            if report.refused:  # said by the worker
                self._can_load = self._can_store = False
            if report.spaces and report.spaces != self._spaces:
                self._see_spaces(report.spaces)
        for request_id in output.finished_recving or ():
            track = self._requests.tracks.get(request_id)
            if track is not None:
                self._loaded(track)
                if track.request.status.name == "WAITING_FOR_REMOTE_KVS":
                    self._returned.add(request_id)
        self._spent_ns += self._clock() - began

    def _see_spaces(self, spaces: Tuple[GroupSpace, ...]) -> None:
        """What the workers hold is right, whatever was computed from the configuration here."""
        self._spaces = spaces
        self._lookups.drop_all()
        self.session.attach(spaces, world_size(self._config), timeout_s=AT_ONCE_S)

    def take_events(self) -> Sequence[Any]:
        return self._events.take()

    # Resets.

    def reset(self) -> bool:
        """New weights, or somebody wants the cache empty. Returns at once; from here on nothing of
        before is found."""
        how = self._settings.on_reset
        self.recorder.count("resets")
        if how == "keep":
            return True
        in_use = self._pool is not None and self._pool.get_num_free_blocks() + 1 < \
            self._pool.num_gpu_blocks
        if in_use and not self._requests.own_cache_is_old:
            logger.warning("kvsidecar: reset while vLLM couldn't empty its own cache: what is "
                           "computed on top of that isn't stored until a reset finds no block in "
                           "use (reset_running_requests)")
        self._forget_all(in_use)
        client = self.session.client
        # Namespaces of its own are used again: clearing them gives their pages' space back.
        if (how == "clear" or self._detached) and client is not None and client.connected and \
                self.session.namespaces:
            self._clearing = [client.clear(namespace)
                              for namespace in self.session.namespaces.values()]
        else:
            self._detach()
        return True

    def _forget_all(self, own_cache_is_old: bool) -> None:
        self._lookups.drop_all()
        self._requests.outlive(own_cache_is_old)
        self._tickets.forget()
        self._events.forget()
        self._life += 1  # also for the workers: what they are loading is of before

    def _detach(self) -> None:
        self._detached += 1
        self.session.enter(self._life, self._detached, self._cleared)

    def _see_clear(self) -> None:
        """When the daemon has begun another generation all attach anew; what is still put into the
        one before is refused. Where it couldn't, its pages must not be met again: this engine goes
        on in namespaces of its own."""
        if self._lookups.cleared_by_others and not self._clearing:
            logger.warning("kvsidecar: somebody else has cleared this engine's namespace. Whether "
                           "its weights are those of the new generation isn't known: it uses "
                           "namespaces of its own from here on; restart it to share again")
            self._forget_all(self._requests.own_cache_is_old)
            return self._detach()
        if not self._clearing or not all([op.finished for op in self._clearing]):
            return
        failed = [op.result() for op in self._clearing if not op.result().ok]
        self._clearing = []
        self._life += 1
        if failed:
            logger.warning("kvsidecar: clear ended %s %s; this engine uses namespaces of its own "
                           "from here on", failed[0].status.name, failed[0].text)
            self._detach()
        else:
            self._cleared += 1
            self.session.keep(self._life, self._cleared)

    def stats(self) -> Any:
        self.session.count_connection(self.recorder)
        return self.recorder.take()

    def shutdown(self) -> None:
        self._adapters.close()
        self.session.close(0.0)


def skips_prefix(request: Any) -> bool:
    """Requests that must not read a prefix from anywhere, e.g. for prompt logprobs."""
    return bool(getattr(request, "skip_reading_prefix_cache", False))
