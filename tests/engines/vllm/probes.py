# SPDX-License-Identifier: Apache-2.0
"""Commands of engine_process.py that look into a running engine or change how the next one is
built. Each takes the Host first."""


def schedule_ahead(host):
    """Engines of this process schedule a step before they have seen the outputs of the one before,
    as they do on a GPU; vLLM switches that off on a CPU. The worker there is built without."""
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
    build = UniProcExecutor._init_executor

    def build_and_switch(executor):
        build(executor)
        executor.vllm_config.scheduler_config.async_scheduling = True

    UniProcExecutor._init_executor = build_and_switch


def _stop_storing(worker, rank):
    from vllm.distributed.kv_transfer import get_kv_transfer_group
    if worker.rank == rank:
        get_kv_transfer_group().wait_for_save = lambda: None


def stop_storing(host, rank):
    """The connector of one worker stores nothing from here on."""
    host.llm.collective_rpc(_stop_storing, args=(rank,))
    return True


def shut_connectors_down(host, times):
    """Both sides' shutdown(), so many times."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group
    for _ in range(times):
        get_kv_transfer_group().shutdown()
        host.scheduler.connector.shutdown()
    return True


def measured(host, prompts, max_tokens):
    """generate(), with the CPU time of all threads of this process and the wall time, in
    microseconds a token that was made."""
    import time
    sampling = {"max_tokens": max_tokens}
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    outputs = host.generate(prompts, sampling)
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    made = sum(len(ids) for output in outputs for ids in output["ids"])
    return {"cpu_us": cpu / 1e3 / made, "wall_us": wall / 1e3 / made,
            "cached": [output["cached"] for output in outputs]}


def timed_steps(host, prompts, max_tokens):
    """All at once, step by step: how long each step took, and when the last request had its first
    token scheduled, from the first step on."""
    import time
    host.add({f"t{i}": prompt for i, prompt in enumerate(prompts)}, {"max_tokens": max_tokens})
    began, step_ms, scheduled_ms = time.perf_counter(), [], None
    while host.engine.has_unfinished_requests():
        before = time.perf_counter()
        host.engine.step()
        after = time.perf_counter()
        step_ms.append((after - before) * 1e3)
        waiting = [request for request in host.scheduler.requests.values()
                   if not request.num_computed_tokens]
        if scheduled_ms is None and not waiting:
            scheduled_ms = (after - began) * 1e3
    return {"step_ms": step_ms, "scheduled_ms": scheduled_ms}


def scheduler_us(host, prompts, max_tokens):
    """All at once, step by step: (microseconds of work, of spinning, steps) of each of the
    connector's own reports about the scheduler's time in it. The clock under it is the thread's CPU
    time, so that another process's turn counts for nothing."""
    import time
    side = host.scheduler.connector._scheduler
    told, count = [], side.recorder.count

    def count_and_look(name, amount=1):
        if name == "scheduler_ns":
            told.append([amount / 1e3])
        elif name == "scheduler_spin_ns":
            told[-1].append(amount / 1e3)
        elif name == "scheduler_steps":
            told[-1].append(amount)
        count(name, amount)

    clock = side._clock
    side._clock = side._lookups.clock = time.thread_time_ns
    side.recorder.count = count_and_look
    try:
        host.add({f"s{i}": prompt for i, prompt in enumerate(prompts)},
                 {"max_tokens": max_tokens})
        while host.engine.has_unfinished_requests():
            host.engine.step()
    finally:
        del side.recorder.count
        side._clock = side._lookups.clock = clock
    return told


def _skip_forward(worker):
    import torch
    runner = worker.model_runner
    width, dtype = worker.model_config.get_hidden_size(), worker.model_config.dtype

    def forward(*_, input_ids, **__):
        return torch.zeros(len(input_ids), width, dtype=dtype)

    runner.model.forward = forward


def skip_forward(host):
    """From here on the model computes nothing: as on a GPU, the scheduler's core does no forward.
    Outputs mean nothing any more."""
    host.llm.collective_rpc(_skip_forward)
    return True


def record_events(host):
    """From here on what the scheduler publishes is kept."""
    publisher = host.scheduler.kv_event_publisher
    host.events = []
    publisher.publish = lambda batch: host.events.extend(batch.events)
    return True


def events(host):
    """[kind, medium, group, hashes] of each event that was published, once."""
    told, host.events = host.events, []
    return [[type(event).__name__, event.medium, getattr(event, "group_idx", None),
             [str(key) for key in getattr(event, "block_hashes", [])]]
            for event in told]
