# SPDX-License-Identifier: Apache-2.0
"""kvsidecar.sglang.Linker: the engine's device memory straight to the node's KV cache daemon.

Start SGLang with
    --enable-unified-cache-external-linker --unified-cache-external-linker-backend dynamic
    --unified-cache-external-linker-config '{"linker": "Linker",
    "linker_module_path": "kvsidecar.sglang"}'

SGLang makes one object per worker and calls it on its scheduler's thread. Three rules hold for
every call: it never raises; a fault of the daemon is a miss or, where a load has begun, the end
of that load's requests by SGLang's own abort; pages are the daemon's only from
start_layer_wise_loading to the return of finish_layer_wise_loading, which is the only call that
waits for it. Pages of an offload stay the engine's, which keeps them locked until it is popped.
"""
from __future__ import annotations

import logging
from typing import Any, Callable, List, Optional, TypeVar

from sglang.srt.mem_cache.unified_cache.unified_cache_linker import (
    LayerWiseLoadCounter, UnifiedCacheLinker)

from .linker_side import Side

logger = logging.getLogger("sglang.kvsidecar")

T = TypeVar("T")


class Linker(UnifiedCacheLinker):  # type: ignore[misc]
    def __init__(self, server_args: Any, params: Any, *, components: Any,
                 extra_config: Optional[Any] = None, forward_stream: Any = None) -> None:
        """May wait for the daemon's first answers, connect_timeout and attach_timeout at most.
        Misuse, with a sentence, for settings or a model that can't be served."""
        self.forward_stream = forward_stream
        self._side = Side(server_args, params, components, extra_config, LayerWiseLoadCounter)
        self.pools = self._side.entries
        self.layer_done_counter = self._side.counter
        self._complained = False

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        """The call's result; `otherwise` after a fault of ours, said once."""
        try:
            return call()
        except Exception as error:
            if not self._complained:
                self._complained = True
                logger.exception("kvsidecar: %s (said once)", error)
            return otherwise

    @property
    def counts(self) -> Any:
        """What has happened so far, by kind."""
        return self._side.counts

    def lookup(self, rid: str, transfers: Any) -> List[int]:
        """All restorable prefixes of the transfers' keys, in pages; [] where the answer isn't there
        within lookup_us, or idle_lookup_us of an engine that computes nothing. Takes no longer.
        SGLang computes what isn't found and doesn't ask again: an idle engine, for which nobody
        waits, gives the daemon the time to wake up rather than lose the prefix."""
        return self._guarded(lambda: self._side.lookup(rid, transfers), [])

    def load(self, rid: str, transfers: Any) -> bool:
        """Queues. False: the engine computes. With one rank that is also so where the daemon that
        answered has gone or the pages can't be asked for any more; with several the answer depends
        on the transfers alone."""
        return self._guarded(lambda: self._side.load(rid, transfers), False)

    def start_layer_wise_loading(self) -> int:
        """Begins what is queued: the pages are the daemon's. -1: nothing is queued."""
        return self._guarded(self._side.start, -1)

    def finish_layer_wise_loading(self, counter_index: int) -> bool:
        """Waits until the batch writes nothing any more, nor any batch that began before it. False:
        a page didn't come, or not in time, or the start itself failed; the blocks hold anything,
        and SGLang aborts the requests that loaded. May wait past load_timeout for a daemon that
        stopped while it copied, until its supervisor ends it."""
        return self._guarded(lambda: self._side.finish(counter_index), False)

    def cancel_queued_load(self, rid: str) -> bool:
        return self._guarded(lambda: self._side.cancel(rid), False)

    def offload(self, transfers: Any, session_id: Optional[str] = None) -> bool:
        """Begins. False: the transfers are about no page. True: it will be popped, in its turn and
        by store_timeout at the latest, also without a daemon."""
        return self._guarded(lambda: self._side.offload(self, transfers), False)

    def num_completed_offloads(self) -> int:
        return self._guarded(self._side.completed_offloads, 0)

    def pop_completed_offload(self) -> bool:
        """The oldest: whether all of it is stored."""
        return self._guarded(self._side.pop_offload, False)

    def reset(self) -> None:
        """Ends all transfers; then what on_reset says, and where the weights have another
        weight_version since, pages of that version only. Waits as finish_layer_wise_loading does,
        and with on_reset = clear for the daemon's answer, attach_timeout at most."""
        self._guarded(self._side.reset, None)

    def close(self) -> None:
        """Ends all transfers and the session. Idempotent."""
        self._guarded(self._side.close, None)
