# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine that the connector can't serve is refused at start, with a sentence and a remedy.

Method: configurations of such engines, and their neighbours that are served.
"""
import pytest

from kvsidecar import Misuse
from kvsidecar.vllm.refusals import check_engine, check_policy
from vllm_fakes import config, engine, transfer

SAYS_WHEN_MEMORY_GOES, SAYS_NOTHING = (config(keeps_memory_in_sleep=keeps)
                                       for keeps in (True, False))


def test_sleep_that_takes_the_memory_without_a_word():
    sleeper = engine(model=dict(enable_sleep_mode=True))
    with pytest.raises(Misuse, match="leave --enable-sleep-mode out or use vLLM 0.33"):
        check_engine(sleeper, SAYS_NOTHING)
    check_engine(sleeper, SAYS_WHEN_MEMORY_GOES)
    check_engine(engine(model=dict(enable_sleep_mode=False)), SAYS_NOTHING)


def test_blocks_without_keys():
    with pytest.raises(Misuse, match="--enable-prefix-caching"):
        check_engine(engine(cache_config=dict(enable_prefix_caching=False)), SAYS_WHEN_MEMORY_GOES)


def test_a_policy_on_top_that_would_fail_requests():
    failing = engine(kv_transfer=transfer(policy="fail"))
    with pytest.raises(Misuse, match="on top"):
        check_policy(True, failing)
    check_policy(False, failing)  # a producer loads nothing
    check_policy(True, engine())
    check_policy(True, None)
