# SPDX-License-Identifier: Apache-2.0
"""kvsidecar.vllm.Connector: vLLM's side of the node's KV cache daemon.

Start vLLM with
    --kv-transfer-config '{"kv_connector": "Connector", "kv_connector_module_path":
    "kvsidecar.vllm", "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}'

vLLM makes one object in the scheduler's process and one in each worker's. They share nothing but
the metadata of each step. Three rules hold for every hook: none waits for the daemon once the
engine runs; a fault of the daemon is a miss; blocks are the daemon's only from start_load_kv to the
step that names their request in finished_recving. Blocks of a store stay the engine's: when they
get other content, what is left of the store is revoked or abandoned first, and never becomes a
page.
"""
from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Dict, Iterable, Optional, Set, Tuple

from vllm.config import get_current_vllm_config_or_none
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1, KVConnectorRole, SupportsHMA)

from . import eras
from .metadata import StepMetadata
from .metrics import PromMetrics, Stats
from .refusals import check_engine, check_policy
from .settings import Settings


class Connector(KVConnectorBase_V1, SupportsHMA):
    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        """May wait for the daemon's first answers, connect_timeout and attach_timeout at most.
        Misuse, with a sentence, for settings or an engine that can't be served."""
        super().__init__(vllm_config, role, kv_cache_config)
        settings = Settings.read(vllm_config)
        # As a child of MultiConnector it is given a copy; workers are made within the engine's own.
        check_policy(settings.loads, get_current_vllm_config_or_none())
        check_engine(vllm_config, eras.current())
        self._scheduler: Any = None
        self._worker: Any = None
        if role == KVConnectorRole.SCHEDULER:
            from .scheduler import SchedulerSide
            self._scheduler = SchedulerSide(vllm_config, kv_cache_config, settings)
        else:
            from .worker import WorkerSide
            self._worker = WorkerSide(vllm_config, kv_cache_config, settings)

    # Both sides.

    @property
    def requires_kv_delivery(self) -> bool:
        """False whatever the role: a store that is lost is a miss, no reason to compute again."""
        return False

    def shutdown(self) -> None:
        """Ends the session. A worker waits for stores under way and for loads that are being
        copied, with a limit; afterwards all blocks are the engine's. Idempotent, any thread."""
        for side in (self._scheduler, self._worker):
            if side is not None:
                side.shutdown()

    def get_kv_connector_stats(self) -> Any:
        """What was counted since the last call, None if nothing was. Never waits."""
        side = self._scheduler or self._worker
        return side.stats()

    @classmethod
    def build_kv_connector_stats(cls, data: Optional[Dict[str, Any]] = None) -> Any:
        """The stats object of data that came from another process."""
        return Stats(data=data) if data is not None else Stats()

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: Any,
                           per_engine_labelvalues: Any) -> Any:
        """What /metrics shows. In the front end's process, once."""
        return PromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # Scheduler's side: one thread, and every microsecond in it delays all requests.

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        """Keeps it, to see at a reset whether any block is in use. At start."""
        self._scheduler.bind_pool(gpu_block_pool)

    def on_new_request(self, request: Any) -> None:
        """Sends the lookup of the prompt, without a lease. Never waits."""
        self._scheduler.on_new_request(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int
                                   ) -> Tuple[Optional[int], bool]:
        """Tokens that can be loaded behind the engine's own num_computed_tokens, whole pages, never
        the prompt's last token; always to be loaded asynchronously. May spin 50 us once a lookup,
        and sleep 1 ms for a request that is the engine's only one. (None, False), ask again at the
        next step, only until lookup_deadline has passed since the first ask; then, and after any
        failure, 0; and for the step in which another request goes on after its load. Asked again it
        gives the same answer while its lease lasts. The pages are held by the lease until they are
        loaded or the request ends."""
        return self._scheduler.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any,
                                 num_external_tokens: int) -> None:
        """num_external_tokens > 0: the load is ordered with this step's metadata, and the blocks
        behind the engine's own hit are the daemon's until the request is in finished_recving. 0:
        the leases are released. Never waits."""
        self._scheduler.allocated(request, blocks, num_external_tokens)

    def get_external_cache_hit_sources(self, request: Any,
                                       num_external_tokens: int) -> Dict[Any, int]:
        """Where the tokens of the load just ordered were found."""
        return dict(self._scheduler.hit_sources(request, num_external_tokens))

    def build_connector_meta(self, scheduler_output: Any) -> StepMetadata:
        """The step's loads, the pages that its forward makes whole, and the blocks that get other
        content. Doesn't change its argument. Never waits."""
        return self._scheduler.build(scheduler_output)

    def update_connector_output(self, connector_output: Any) -> None:
        """Takes in what the workers tell: ended loads release their leases, failed pages aren't
        asked for again soon, and their request not at all. Never waits."""
        self._scheduler.heard(connector_output)

    def request_finished(self, request: Any, block_ids: Any
                         ) -> Tuple[bool, Optional[Dict[str, Any]]]:
        """(False, None): the blocks may be freed at once, nothing is added to the answer. Never
        waits: stores under way go on until a block gets other content. A request that is aborted
        during its load keeps its blocks (vLLM sees to that) until it is in finished_recving."""
        self._scheduler.finished(request)
        return False, None

    def request_finished_all_groups(self, request: Any, block_ids: Any
                                    ) -> Tuple[bool, Optional[Dict[str, Any]]]:
        """As request_finished, for models with several KV cache groups."""
        return self.request_finished(request, block_ids)

    def take_events(self) -> Iterable[Any]:
        """KV events of pages that have become complete in the daemon, each once."""
        return self._scheduler.take_events()

    def reset_cache(self) -> Optional[bool]:
        """Does what on_reset says; from here on no page of before is loaded. Returns True at once,
        also without a daemon."""
        return self._scheduler.reset()

    def get_finished_count(self) -> Optional[int]:
        """None: all workers report a load."""
        return None

    def set_xfer_handshake_metadata_pp_aware(self, metadata: Any) -> None:
        """Nothing: it is another connector's, beside which this one runs."""

    # A worker's side: its one thread, step by step.

    def get_mem_pool_context(self) -> Optional[AbstractContextManager[Any]]:
        """In which vLLM allocates the KV cache: as shared memory from birth. At start."""
        return self._worker.pool_context()

    def register_kv_caches(self, kv_caches: Dict[str, Any]) -> None:
        """Tells the daemon where the blocks lie. At start; may wait for its answers, attach_timeout
        each; without a daemon it is made up for as soon as one answers, by a thread of the
        client. Misuse with shapes and strides for a layout that can't be mapped."""
        self._worker.register(kv_caches)

    @classmethod
    def supports_sleep_mode(cls, kv_transfer_config: Any) -> bool:
        """Since 0.33: the daemon's mappings follow the memory."""
        return True

    def unregister_kv_caches(self) -> None:
        """Before sleep takes the KV cache's memory (since 0.33): blocks until the daemon has closed
        its mappings, and raises RuntimeError if it hasn't in ten seconds. Idempotent."""
        self._worker.unregister()

    def restore_kv_caches(self) -> None:
        """After sleep: the memory is registered anew, as at start. Idempotent."""
        self._worker.restore()

    def register_cross_layers_kv_cache(self, kv_cache: Any, attn_backend: Any = None) -> None:
        """vLLM before 0.30 calls it where a connector asks for such a layout; this one doesn't."""
        raise NotImplementedError("prefer_cross_layer_blocks is False")

    def handle_preemptions(self, kv_connector_metadata: StepMetadata) -> None:
        """First in a step, before any block gets other content: stores of such blocks are revoked
        or abandoned, after which the blocks are the engine's alone. Never waits."""
        self._worker.before_step(kv_connector_metadata)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Begins the step's loads; also on steps without a forward. Never waits."""
        self._worker.start_loads(self._get_connector_metadata())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing: loads end between steps."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any,
                      **kwargs: Any) -> None:
        """Nothing: pages are stored whole, after the forward."""

    def wait_for_save(self) -> None:
        """Begins the step's stores, which wait for the forward's end. Doesn't wait itself."""
        self._worker.start_stores(self._get_connector_metadata())

    def get_finished(self, finished_req_ids: Set[str]
                     ) -> Tuple[Optional[Set[str]], Optional[Set[str]]]:
        """(None, requests whose load has ended since, each once): their blocks are the engine's
        again. A load has ended when its answer came, it was revoked, or the daemon is dead, never
        merely because time has passed. Loads of finished_req_ids are revoked as far as the daemon
        hasn't begun them."""
        ended, _ = self._worker.results(finished_req_ids)
        return None, ended or None

    def get_block_ids_with_load_errors(self) -> Set[int]:
        """Blocks of the loads just told as ended that don't hold what was asked for. Models with
        several KV cache groups tell the request instead (failed_recving)."""
        return self._worker.bad_blocks()

    def build_connector_worker_meta(self) -> Any:
        """What the scheduler's side has to hear of this step, None if nothing."""
        return self._worker.report()

    if hasattr(base, "KVConnectorTransferResults"):
        def get_transfer_results(self, finished_req_ids: Set[str]) -> Any:
            """As get_finished, with the requests whose load failed."""
            ended, failed = self._worker.results(finished_req_ids)
            return base.KVConnectorTransferResults(finished_recving=ended, failed_recving=failed)


def _register() -> None:
    """MultiConnector finds the class of its children's counts by name, and only among those that
    are registered: a child by module path would end the engine at its first count."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    try:
        KVConnectorFactory.register_connector("Connector", "kvsidecar.vllm", "Connector")
    except ValueError:  # somebody else's of this name; by its path ours is found all the same
        pass


_register()
