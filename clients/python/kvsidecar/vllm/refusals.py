# SPDX-License-Identifier: Apache-2.0
"""Engines that the connector can't serve: refused at start with a sentence. Needs no vLLM."""
from __future__ import annotations

from typing import Any

from ..errors import Misuse
from .settings import POLICY


def check_policy(loads: bool, vllm_config: Any) -> None:
    """vllm_config: the engine's own, None where it isn't known. Its policy is the one that vLLM
    goes by, whatever the entry of a connector under MultiConnector says."""
    transfer = getattr(vllm_config, "kv_transfer_config", None)
    if loads and transfer is not None and \
            getattr(transfer, "kv_load_failure_policy", "fail") != "recompute":
        raise Misuse(POLICY)


def check_engine(vllm_config: Any, era: Any) -> None:
    """era: the module of kvsidecar.vllm.eras for the installed release."""
    if getattr(vllm_config.model_config, "enable_sleep_mode", False) and \
            not era.keeps_memory_in_sleep:
        raise Misuse("enable_sleep_mode is on, but this release of vLLM takes the KV cache's "
                     "memory away without a word while the daemon may be copying; leave "
                     "--enable-sleep-mode out or use vLLM 0.33 or later")
    if getattr(vllm_config.cache_config, "enable_prefix_caching", True) is False:
        raise Misuse("enable_prefix_caching is off, and with it vLLM gives blocks no keys; start "
                     "with --enable-prefix-caching")
