# SPDX-License-Identifier: Apache-2.0
"""Goal: what can't be right is said at start, in a sentence that names the remedy; what can be is
served.

Method: real engines with one wrong flag each, as an operator would have them.
"""
import pytest

import workload
from engine import EngineFailed, connector, ids

REFUSED = {
    "an unknown key": (dict(extra={"lookup_deadline": 20}), {}, "did you mean lookup_deadline_ms"),
    "a mistyped value": (dict(extra={"durable": "yes"}), {}, "durable is \"yes\"; set it to true"),
    "events of the daemon": (dict(extra={"events": "daemon"}), {}, "publishes no events yet"),
    "loads that may fail requests": (dict(policy="fail"), {},
                                     '"kv_load_failure_policy": "recompute"'),
    "no prefix caching": ({}, dict(enable_prefix_caching=False), "--enable-prefix-caching"),
}


def test_each_wrong_flag_is_refused_with_its_remedy(engine, daemon):
    for what, (transfer, flags, sentence) in REFUSED.items():
        more = dict(transfer)
        extra = more.pop("extra", {})
        with pytest.raises(EngineFailed) as failed:
            engine.start("llama", connector(daemon.socket, **more, **extra), **flags)
        assert sentence in str(failed.value), what


def test_keys_of_the_hf3fs_connector_are_accepted_with_a_hint(engine, daemon, settle):
    prompts = workload.chats(2)
    engine.start("llama", connector(daemon.socket, hf3fs_storage_path="/mnt/x",
                                    hf3fs_client_numjobs=16))
    assert len(ids(engine.generate(prompts))) == 2
    assert "[store] root" in engine.log() and "[store] depth" in engine.log()
    assert settle(daemon, engine)["pages_put_stored"] > 0


def test_the_end_of_an_engine_may_come_twice(engine, daemon):
    """vLLM's HF3FS connector was ended twice; so may ours, whatever has been ended before."""
    engine.start("llama", connector(daemon.socket))
    engine.generate(workload.chats(1))
    assert engine.call("shut_connectors_down", times=3)
    engine.call("stop")
