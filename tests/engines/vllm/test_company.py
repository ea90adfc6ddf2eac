# SPDX-License-Identifier: Apache-2.0
"""Goal: the connector does its part beside other connectors, other engines and in each role.

Method: MultiConnector with vLLM's ExampleConnector in both orders, a producer and a consumer, two
engines on one daemon at once.
"""
import pytest

import accounts
import workload
from engine import connector, external_hits, ids
from test_outputs import restorable


def both(first, second):
    return dict(kv_connector="MultiConnector", kv_role="kv_both",
                kv_load_failure_policy="recompute",
                kv_connector_extra_config={"connectors": [first, second]})


@pytest.mark.parametrize("order", ["first", "second"])
def test_beside_another_connector(order, engine, daemon, reference, settle, tmp_path):
    prompts = workload.chats(8)
    expected = ids(reference("llama", prompts))
    ours = connector(daemon.socket)
    example = dict(kv_connector="ExampleConnector", kv_role="kv_both",
                   kv_connector_extra_config={"shared_storage_path": str(tmp_path / "example")})
    pair = both(ours, example) if order == "first" else both(example, ours)
    for _ in range(2):
        engine.start("llama", pair)
        outputs = engine.generate(prompts)
        assert ids(outputs) == expected
        counters = settle(daemon, engine)
    assert all(output.cached for output in outputs)
    assert counters["pages_put_stored"] > 0
    # The one that is asked first answers; the other one is there when it can't.
    assert (counters["pages_get_host"] > 0) == (order == "first")
    engine.start("llama", ours)
    assert ids(engine.generate(prompts)) == expected
    assert external_hits(engine.metrics()) == sum(restorable(p, 32) for p in prompts)


def test_each_role_does_only_its_part(engine, daemon, reference, settle):
    prompts = workload.chats(6)
    whole = sum(restorable(p, 32) for p in prompts)
    expected = ids(reference("llama", prompts))

    def life(role):
        engine.start("llama", connector(daemon.socket, role=role))
        assert ids(engine.generate(prompts)) == expected
        counters = settle(daemon, engine)
        return external_hits(engine.metrics()), counters["pages_put_stored"]

    assert life("kv_consumer") == (0, 0)
    hits, stored = life("kv_producer")
    assert hits == 0 and stored > 0
    hits, again = life("kv_producer")  # and it doesn't load what it has stored
    assert (hits, again) == (0, stored)
    assert life("kv_consumer") == (whole, stored)
    assert life("kv_both") == (whole, stored)


def test_two_engines_share_a_daemon(make_engine, daemon, reference, settle):
    """Data-parallel replicas: each has the other's pages, and both at once ask, store and load."""
    prompts = workload.shared_prefixes(40)
    halves = prompts[0::2], prompts[1::2]
    expected = ids(reference("llama", prompts))
    engines = make_engine(), make_engine()
    for one in engines:
        one.start("llama", connector(daemon.socket))
    for turn in range(2):
        for one, half in zip(engines, halves if turn == 0 else reversed(halves)):
            one.begin_generate(half)
        answers = [one.outputs() for one in engines]
        for outputs, right in zip(answers, (expected[turn::2], expected[1 - turn::2])):
            assert ids(outputs) == right
        for one in engines:
            settle(daemon, one)
    for one in engines:
        assert external_hits(one.metrics()) > 0
    assert accounts.status(daemon)["groups"] == 2
