# SPDX-License-Identifier: Apache-2.0
"""vLLM's real scheduler and step order over a model that checks every byte it reads.

What a token leaves in the KV cache is a hash of all tokens up to it; before a step computes a token
it looks at what the cache holds for every earlier one, as attention would, and fails on any that is
wrong. The next token is made of the last hash. So whatever is stored, loaded, forgotten, preempted
or aborted in whatever order: a wrong byte is seen at once, by the request that meets it.
"""
import collections
import contextlib
import copy
import pickle
import uuid
from unittest import mock

import numpy
import torch
from vllm import SamplingParams
from vllm.config import set_current_vllm_config
from vllm.distributed.kv_transfer import kv_transfer_state
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.engine.arg_utils import EngineArgs
from vllm.forward_context import set_forward_context
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.worker.kv_connector_model_runner_mixin import KVConnectorModelRunnerMixin

from kvsidecar.vllm.layout import expected_part_bytes
from kvsidecar.vllm.stats import Stats
from kvsidecar.vllm.worker import WorkerSide
from tokens import CHAIN, TOKEN_BYTES, continuation, next_token

PAGE = 32
WINDOW = 64
SPEC = dict(block_size=PAGE, num_kv_heads=1, head_size=4, dtype=torch.float32)
FULL = {f"full.{i}": FullAttentionSpec(**SPEC) for i in range(2)}
HYBRID = {**FULL, **{f"window.{i}": SlidingWindowSpec(sliding_window=WINDOW, **SPEC)
                     for i in range(2)}}
LATENT = {f"latent.{i}": MLAAttentionSpec(**{**SPEC, "head_size": 8}) for i in range(2)}
STEPS_MAX = 20_000


class WrongBytes(AssertionError):
    """The engine would have computed from bytes that aren't its request's."""


class Worker:
    """One rank: its memory, and its side of the connector."""

    def __init__(self, vllm_config, kv_cache_config):
        self.config, self.kv_config = vllm_config, kv_cache_config
        with set_current_vllm_config(vllm_config):
            self.connector = KVConnectorFactory.create_connector(
                config=vllm_config, role=KVConnectorRole.WORKER, kv_cache_config=kv_cache_config)
        in_pool = getattr(self.connector, "get_mem_pool_context", lambda: None)()
        with in_pool or contextlib.nullcontext():
            self.caches = allocate(kv_cache_config)
        self.connector.register_kv_caches(self.caches)
        self.caches = dict(self.caches)

    def rows(self, group, table, begin, end):
        """(layers' arrays of block bytes, block of each token, its offset)."""
        positions = numpy.arange(begin, end)
        blocks = numpy.asarray(table, dtype=numpy.int64)[positions // PAGE]
        arrays = [self.caches[name].view(torch.uint8).numpy()
                  for name in self.kv_config.kv_cache_groups[group].layer_names]
        return arrays, blocks, positions % PAGE

    def write(self, group, table, begin, hashes):
        arrays, blocks, offsets = self.rows(group, table, begin, begin + len(hashes))
        assert blocks.all(), "a token is computed into the null block"
        values = numpy.frombuffer(b"".join(hashes), numpy.uint8).reshape(-1, TOKEN_BYTES)
        for layer, array in enumerate(arrays):
            array[blocks, 0, offsets] = values ^ self.mark(group, layer)

    def check(self, group, table, begin, hashes, who):
        arrays, blocks, offsets = self.rows(group, table, begin, begin + len(hashes))
        expected = numpy.frombuffer(b"".join(hashes), numpy.uint8).reshape(-1, TOKEN_BYTES)
        for layer, array in enumerate(arrays):
            wrong = (array[blocks, 0, offsets] != expected ^ self.mark(group, layer)).any(1)
            if wrong.any():
                at = int(wrong.argmax())
                raise WrongBytes(f"{who}: group {group}, layer {layer}, token {begin + at} in "
                                 f"block {blocks[at]}")

    def mark(self, group, layer):
        """Layers hold different bytes, and ranks, but for latent vectors within a stage."""
        spec, parallel = (self.kv_config.kv_cache_groups[group].kv_cache_spec,
                          self.config.parallel_config)
        rank = parallel.rank
        if isinstance(spec, MLAAttentionSpec):
            rank -= rank % parallel.tensor_parallel_size
        return numpy.uint8(1 + group * 16 + layer + 64 * rank)

    def step(self, output, compute):
        """In the order of vLLM's own runner, by its own code."""
        kv_transfer_state._KV_CONNECTOR_AGENT = self.connector
        output = copy.copy(output)  # each worker gets its own, by pickle
        output.kv_connector_metadata = pickle.loads(pickle.dumps(output.kv_connector_metadata))
        self.connector.handle_preemptions(output.kv_connector_metadata)
        if output.total_num_scheduled_tokens == 0:
            return KVConnectorModelRunnerMixin.kv_connector_no_forward(
                output, self.config).kv_connector_output
        with set_forward_context(None, self.config), \
                KVConnectorModelRunnerMixin.maybe_get_kv_connector_output(output) as found:
            compute(self)
        return found


def allocate(kv_cache_config):
    """As vLLM does for attention layers."""
    try:
        from vllm.v1.worker.utils import allocate_kv_cache
    except ImportError:  # before 0.30: a storage a tensor
        caches = {}
        for planned in kv_cache_config.kv_cache_tensors:
            raw = torch.zeros(planned.size, dtype=torch.int8)
            for name in planned.shared_by:
                caches[name] = raw.view(torch.float32).view(
                    kv_cache_config.num_blocks, 1, PAGE, TOKEN_BYTES // 4)
        return caches
    from vllm.v1.kv_cache_interface import KVCacheLayout
    return allocate_kv_cache(kv_cache_config, torch.device("cpu"), KVCacheLayout.LBHNC)


def no_structure():
    """A StructuredOutputManager for requests without any."""
    return mock.Mock(**{"should_advance.return_value": False,
                        "validate_tokens.side_effect": lambda request, tokens: tokens})


class Rig:
    """One engine: scheduler and workers in this process, stepped by hand."""

    scheduler_class, ahead = Scheduler, False

    def __init__(self, transfer, model, specs=None, blocks=64, ranks=1, stages=1,
                 policy="recompute", **flags):
        """ranks: tensor parallel, of each of so many pipeline stages."""
        self.specs = dict(specs or FULL)
        self.ranks, self.stages = ranks, stages
        self.transfer = {"engine_id": str(uuid.uuid4()), "kv_load_failure_policy": policy,
                         **transfer}
        self.instance_id = str(uuid.uuid4())  # vLLM gives its configuration to all processes
        self.configs = [self._configure(model, blocks, rank, flags)
                        for rank in range(ranks * stages)]
        self.config = self.configs[0]
        workers_kv, scheduler_kv = self._plan(blocks)
        with self._told_each_other(workers_kv):
            self.workers = list(map(Worker, self.configs, workers_kv))
        block_size, hash_size = kv_cache_utils.resolve_kv_cache_block_sizes(
            scheduler_kv, self.config)
        hash_function = get_hash_fn_by_name(self.config.cache_config.prefix_caching_hash_algo)
        kv_cache_utils.init_none_hash(hash_function)
        self.hasher = kv_cache_utils.get_request_block_hasher(hash_size, hash_function)
        self.scheduler = self.scheduler_class(
            vllm_config=self.config, kv_cache_config=scheduler_kv, log_stats=True,
            structured_output_manager=no_structure(), block_size=block_size,
            hash_block_size=hash_size)
        self.connector = self.scheduler.connector
        self.aggregator = KVOutputAggregator.from_connector(self.connector, ranks * stages)
        self.tables, self.outputs, self.reasons = {}, {}, {}
        self.salts = {}
        self.asked = []  # (request, external tokens or None) of every ask
        self.on_load = []  # called with the request when its load is ordered, before it begins
        self._watch()
        self.hits = 0  # tokens that vLLM counts as found by the connector
        self.stats = Stats()
        self.steps = 0

    def _configure(self, model, blocks, rank, flags):
        flags = {**dict(max_model_len=512, max_num_seqs=8, max_num_batched_tokens=512), **flags}
        config = EngineArgs(
            model=model, skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
            block_size=PAGE, prefix_caching_hash_algo="sha256_cbor", async_scheduling=self.ahead,
            num_gpu_blocks_override=blocks, disable_hybrid_kv_cache_manager=False,
            kv_transfer_config=dict(self.transfer), **flags).create_engine_config()
        config.parallel_config.tensor_parallel_size = self.ranks
        config.parallel_config.pipeline_parallel_size = self.stages
        config.parallel_config.world_size = self.ranks * self.stages
        config.parallel_config.rank = rank
        if hasattr(config.cache_config, "kv_cache_layout"):
            config.cache_config.kv_cache_layout = "LBHNC"
        config.cache_config.num_gpu_blocks = blocks
        config.instance_id = self.instance_id
        return config

    def _plan(self, blocks):
        """(of each rank, the scheduler's). Layers are dealt out to the stages in turn."""
        names = list(self.specs)
        stage = [{name: self.specs[name] for name in names[which::self.stages]}
                 for which in range(self.stages)]
        found = kv_cache_utils.get_kv_cache_configs(
            self.config, [stage[rank // self.ranks] for rank in range(len(self.configs))],
            [1 << 30] * len(self.configs))
        for planned in found:
            assert planned.num_blocks == blocks
            if hasattr(planned, "hash_block_size"):
                sizes = kv_cache_utils.resolve_kv_cache_block_sizes(planned, self.config)
                planned.hash_block_size = sizes[1]
                planned.cache_hit_alignment_tokens = sizes[0]
                planned.kv_cache_layout = "LBHNC"
        return found, kv_cache_utils.generate_scheduler_kv_cache_config(found)

    def _told_each_other(self, workers_kv):
        """Stages tell each other the sizes of their parts at their start, in processes of their
        own; here they have one."""
        if self.stages == 1:
            return contextlib.nullcontext()
        sizes = {rank: tuple(expected_part_bytes(planned, group)
                             for group in range(len(planned.kv_cache_groups)))
                 for rank, planned in enumerate(workers_kv)}

        def told(worker, mine):
            assert tuple(mine) == sizes[worker.rank]
            return sizes

        return mock.patch.object(WorkerSide, "_all_ranks", told)

    def _watch(self):
        ask, allocated = (self.connector.get_num_new_matched_tokens,
                          self.connector.update_state_after_alloc)

        def watched_ask(request, computed):
            answer = ask(request, computed)
            self.asked.append((request.request_id, answer[0]))
            return answer

        def watched_allocation(request, blocks, external):
            if external:
                for call in self.on_load:
                    call(request)
            return allocated(request, blocks, external)

        self.connector.get_num_new_matched_tokens = watched_ask
        self.connector.update_state_after_alloc = watched_allocation

    def close(self):
        self.connector.shutdown()
        for worker in self.workers:
            worker.connector.shutdown()
        kv_transfer_state._KV_CONNECTOR_AGENT = None

    # Requests.

    def request(self, request_id, tokens, max_tokens=4, **values):
        """As the engine core makes it."""
        return Request(request_id, list(tokens), SamplingParams(
            max_tokens=max_tokens, ignore_eos=True), None, block_hasher=self.hasher, **values)

    def add(self, request_id, tokens, max_tokens=4, salt=b"", **values):
        """salt: what else the model's values depend on, e.g. an adapter."""
        request = self.request(request_id, tokens, max_tokens, **values)
        self.outputs[request_id], self.salts[request_id] = [], salt
        self.scheduler.add_request(request)
        return request

    def abort(self, request_id):
        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)

    # Steps.

    def step(self):
        output = self.scheduler.schedule()
        self._see_blocks(output)
        plan = [self._plan_request(output, request_id, count)
                for request_id, count in output.num_scheduled_tokens.items()]
        self._update(output, self._execute(output, plan))
        self.steps += 1
        return output

    def _execute(self, output, plan):
        told = [worker.step(output, lambda worker: self._compute(worker, plan))
                for worker in self.workers]
        results = [ModelRunnerOutput(
            req_ids=[entry[0] for entry in plan],
            req_id_to_index={entry[0]: i for i, entry in enumerate(plan)},
            sampled_token_ids=[entry[4] for entry in plan], prompt_logprobs_dict={},
            pooler_output=[], kv_connector_output=found) for found in told]
        return self.aggregator.aggregate(results, 0) if len(results) > 1 else results[0]

    def _update(self, output, result):
        for outputs in self.scheduler.update_from_output(output, result).values():
            self._see_stats(outputs.scheduler_stats)
            for one in outputs.outputs:
                self.outputs[one.request_id] += one.new_token_ids
                if one.finish_reason is not None:
                    self.reasons[one.request_id] = str(one.finish_reason)

    def _see_stats(self, stats):
        if stats is None:
            return
        if stats.connector_prefix_cache_stats is not None:
            self.hits += stats.connector_prefix_cache_stats.hits
        if stats.kv_connector_stats:
            self.stats.aggregate(Stats(data=stats.kv_connector_stats))

    def run(self, until=None):
        """Steps until nothing is left, or `until` says so."""
        for _ in range(STEPS_MAX):
            if until is not None and until():
                return
            if not self.scheduler.has_requests():
                assert until is None, "nothing is left, and it hasn't come"
                return
            self.step()
        raise AssertionError(f"no end in {STEPS_MAX} steps: {self.scheduler.requests}")

    def generate(self, prompts, max_tokens=4, name=""):
        """Runs prompts to their end; the outputs in order, each compared with the model's own."""
        ids = [f"{name}{i}" for i in range(len(prompts))]
        for request_id, prompt in zip(ids, prompts):
            self.add(request_id, prompt, max_tokens)
        self.run()
        for request_id, prompt in zip(ids, prompts):
            self.check_output(request_id, prompt, max_tokens)
        return [self.outputs[request_id] for request_id in ids]

    def check_output(self, request_id, prompt, max_tokens=4):
        expected = continuation(prompt, max_tokens, self.salts[request_id])
        assert self.outputs[request_id] == expected, request_id

    def _see_blocks(self, output):
        """As the runner keeps its block table."""
        for new in output.scheduled_new_reqs:
            self.tables[new.req_id] = [list(ids) for ids in new.block_ids]
        cached = output.scheduled_cached_reqs
        for request_id, blocks in zip(cached.req_ids, cached.new_block_ids):
            if request_id in cached.resumed_req_ids:
                self.tables[request_id] = [list(ids) for ids in blocks]
            elif blocks is not None:
                for table, ids in zip(self.tables[request_id], blocks):
                    table.extend(ids)
        for request_id in output.finished_req_ids:
            self.tables.pop(request_id, None)

    def _plan_request(self, output, request_id, count):
        """(id, first token, hashes of all tokens up to the last, table, sampled)."""
        request = self.scheduler.requests[request_id]
        computed = self._computed(output, request_id)
        tokens = list(request.all_token_ids)[:computed + count]
        hashes = CHAIN.of(tokens, self.salts[request_id])
        whole = computed + count == request.num_tokens
        return (request_id, computed, hashes, self.tables[request_id],
                [next_token(hashes[-1])] if whole else [])

    @staticmethod
    def _computed(output, request_id):
        for new in output.scheduled_new_reqs:
            if new.req_id == request_id:
                return new.num_computed_tokens
        cached = output.scheduled_cached_reqs
        return cached.num_computed_tokens[cached.req_ids.index(request_id)]

    def _compute(self, worker, plan):
        """As a layer does: all of the step's tokens are written, then attention reads. So a request
        may stand on a page that another one makes in the same step."""
        groups = worker.kv_config.kv_cache_groups
        for _, computed, hashes, tables, _ in plan:
            for group in range(len(groups)):
                worker.write(group, tables[group], computed, hashes[computed:])
        for request_id, computed, hashes, tables, _ in plan:
            for group, found in enumerate(groups):
                window = getattr(found.kv_cache_spec, "sliding_window", None)
                first = 0 if window is None else max(0, computed - window + 1)
                worker.check(group, tables[group], first, hashes[first:], request_id)

    # What is left.

    def counts(self):
        """What the connector has counted so far, as vLLM was told."""
        return collections.Counter(self.stats.data["counters"])

    def check_empty(self):
        """Nothing of any request is left, on either side."""
        assert not self.scheduler.requests and not self.scheduler.running
        assert not self.scheduler.waiting
        manager = self.scheduler.kv_cache_manager
        free = manager.block_pool.get_num_free_blocks()
        assert free == self.config.cache_config.num_gpu_blocks - 1, f"{free} blocks are free"
        side = self.connector._scheduler
        assert side._requests.tracks == side._requests.due == side._requests.fresh == {}
        assert side._lookups._asks == {} and side._lookups._leases == 0 and side._loads == []
        assert getattr(side._tables, "_tables", {}) == {}
        for worker in self.workers:
            assert len(worker.connector._worker._loads) == 0
