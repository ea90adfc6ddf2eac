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
