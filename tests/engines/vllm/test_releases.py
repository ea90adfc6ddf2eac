# SPDX-License-Identifier: Apache-2.0
"""Goal: the oldest release that is served works as the main one, as far as it can.

Method: vLLM 0.28, whose layers have a storage each, whose connectors keep the block tables and
whose scheduler can't be told of a failed load of several KV cache groups.
"""
import workload
from engine import connector, external_hits, ids, prompt
from test_failed_loads import FEW, damage
from test_outputs import check_found
from test_requests import SCARCE

OLDEST = "0.28"


def test_one_group_is_stored_and_loaded(make_engine, start_daemon, reference, settle):
    daemon = start_daemon(store={"segment_bytes": "4MiB"})
    prompts = workload.shared_prefixes(40)
    expected = ids(reference("llama", prompts))
    engine = make_engine(release=OLDEST)
    for _ in range(2):
        engine.start("llama", connector(daemon.socket, durable=True))
        outputs = engine.generate(prompts)
        assert ids(outputs) == expected
        settle(daemon, engine)
    check_found(outputs, prompts, 32)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    damage(daemon, FEW)
    daemon.start().log_has(r"\bchunk_ready\b")
    engine.start("llama", connector(daemon.socket))
    assert ids(engine.generate(prompts)) == expected
    assert external_hits(engine.metrics()) > 0
    settle(daemon, engine)


def test_several_groups_are_only_stored(make_engine, daemon, reference, settle):
    """The main release then finds them, unless the bytes of a block differ."""
    prompts = workload.chats(6)
    expected = ids(reference("gemma3", prompts))
    engine = make_engine(release=OLDEST)
    for _ in range(2):
        engine.start("gemma3", connector(daemon.socket))
        assert ids(engine.generate(prompts)) == expected
        assert settle(daemon, engine)["pages_put_stored"] > 0
        assert external_hits(engine.metrics()) == 0
    assert engine.log().count("pages are stored, none is loaded") >= 1


def test_preempted_requests_go_on(make_engine, daemon, reference, settle):
    prompts = [prompt(20 + i, 150) for i in range(4)]
    expected = ids(reference("llama", prompts, max_tokens=120))
    engine = make_engine(release=OLDEST)
    for _ in range(2):
        engine.start("llama", connector(daemon.socket), **SCARCE)
        assert ids(engine.generate(prompts, 120)) == expected
        assert engine.metrics()["vllm:num_preemptions"] > 0
        settle(daemon, engine)
    assert external_hits(engine.metrics()) > 0
