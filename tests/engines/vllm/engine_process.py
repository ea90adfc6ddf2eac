# SPDX-License-Identifier: Apache-2.0
"""The process of an engine of engine.py: one vLLM engine at a time, which does what it is told.

Commands and answers are lines of JSON over a socket; whatever vLLM prints goes to this process's
log. Each command is a method of Host; more of them, which look into the engine, stand in probes.py.
"""
import gc
import json
import sys
import traceback

STEPS_MAX = 20_000  # of one command: an engine that never comes to an end is a failure


def whole_text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def lead(position):
    """By how much the likeliest token of a position is ahead of the next, in logarithms."""
    first, second, *_ = sorted((rank.logprob for rank in position.values()), reverse=True)
    return first - second


class Host:
    def __init__(self):
        self.llm = None
        self.ended = {}  # request → what became of it, until it is taken

    # Life.

    def start(self, flags):
        from vllm import LLM
        self.llm = LLM(**flags)
        self.ended = {}
        config = self.llm.llm_engine.vllm_config
        return {"block_size": config.cache_config.block_size,
                "async_scheduling": bool(config.scheduler_config.async_scheduling)}

    def stop(self):
        """Ends the engine in order; this process can start another one."""
        from vllm.distributed import cleanup_dist_env_and_memory
        if self.llm is not None:
            self.llm.llm_engine.engine_core.shutdown()
            self.llm = None
            gc.collect()
            cleanup_dist_env_and_memory()
        return True

    # Requests.

    @property
    def engine(self):
        return self.llm.llm_engine

    @property
    def scheduler(self):
        """Of an engine in this process."""
        return self.engine.engine_core.engine_core.scheduler

    def generate(self, prompts, sampling):
        """All at once, to the end."""
        outputs = self.llm.generate([self.prompt(prompt) for prompt in prompts],
                                    self.sampling(sampling), use_tqdm=False)
        return [self.told(output) for output in outputs]

    def add(self, requests, sampling):
        """{id: prompt}; nothing is done for them before the next step."""
        for request, prompt in requests.items():
            self.engine.add_request(request, self.prompt(prompt), self.sampling(sampling))
        return True

    def step(self, until, steps):
        """Steps of the engine until a condition of this file holds; how many it took, or None if
        it didn't come to hold within so many."""
        for count in range(steps if steps is not None else STEPS_MAX):
            if getattr(self, "is_" + until)():
                return count
            for output in self.engine.step():
                if output.finished:
                    self.ended[output.request_id] = self.told(output)
        return None if not getattr(self, "is_" + until)() else steps

    def take(self):
        """What has ended since the last call."""
        ended, self.ended = self.ended, {}
        return ended

    def abort(self, requests):
        self.engine.abort_request(requests)
        return True

    def states(self):
        """{id as it was added: status}"""
        return {name.split("-")[0]: request.status.name
                for name, request in self.scheduler.requests.items()}

    @staticmethod
    def prompt(prompt):
        return {"prompt": prompt} if isinstance(prompt, str) else {"prompt_token_ids": prompt}

    @staticmethod
    def sampling(values):
        from vllm import SamplingParams
        return SamplingParams(**{"temperature": 0, "detokenize": False, "ignore_eos": True,
                                 **values})

    @staticmethod
    def told(output):
        return {"ids": [list(one.token_ids) for one in output.outputs],
                "leads": [list(map(lead, one.logprobs or ())) for one in output.outputs],
                "cached": output.num_cached_tokens,
                "reasons": [one.finish_reason for one in output.outputs]}

    # Conditions of step().

    def is_never(self):
        return False

    def is_ended(self):
        """Nothing is left to answer."""
        return not self.engine.has_unfinished_requests()

    def is_idle(self):
        """Nothing is left to do, blocks of ended requests included."""
        return not self.scheduler.has_requests()

    def is_answered(self):
        """Nothing is left but requests whose load hasn't ended."""
        return set(self.states().values()) <= {"WAITING_FOR_REMOTE_KVS"}

    def is_loading(self):
        return "WAITING_FOR_REMOTE_KVS" in self.states().values()

    def is_all_loading(self):
        states = list(self.states().values())
        return bool(states) and set(states) == {"WAITING_FOR_REMOTE_KVS"}

    def is_running(self):
        return "RUNNING" in self.states().values()

    def is_preempting(self):
        return any(request.num_preemptions for request in self.scheduler.requests.values())

    # What the engine tells.

    def metrics(self):
        """{name: value}, labels other than the engine's in braces; of histograms count and sum."""
        told = {}
        for metric in self.llm.get_metrics():
            if metric.name.endswith("_info"):
                continue
            labels = {key: value for key, value in metric.labels.items()
                      if key not in ("engine", "model_name")}
            name = metric.name + ("{%s}" % ",".join(
                f"{key}={value}" for key, value in sorted(labels.items())) if labels else "")
            for kind in ("value", "values", "sum"):
                if hasattr(metric, kind):
                    told[name + (":sum" if kind == "sum" else "")] = getattr(metric, kind)
            if hasattr(metric, "count"):
                told[name + ":count"] = metric.count
        return told

    def reset_prefix_cache(self, connector):
        return self.llm.reset_prefix_cache(reset_connector=connector)

    def blocks(self):
        """(free, all): every block but the null one is free when nothing is leaked."""
        pool = self.scheduler.kv_cache_manager.block_pool
        return [pool.get_num_free_blocks(), pool.num_gpu_blocks]


def serve(wire):
    import probes
    host = Host()
    lines = wire.makefile("rw", encoding="utf-8")
    for line in lines:
        command = json.loads(line)
        name, arguments = command["name"], command["arguments"]
        try:
            if hasattr(probes, name):
                answer = {"value": getattr(probes, name)(host, **arguments)}
            else:
                answer = {"value": getattr(host, name)(**arguments)}
        except Exception:
            answer = {"error": traceback.format_exc()}
            sys.stderr.write(answer["error"])
        lines.write(json.dumps(answer, default=whole_text) + "\n")
        lines.flush()
    host.stop()
