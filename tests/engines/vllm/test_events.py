# SPDX-License-Identifier: Apache-2.0
"""Goal: whoever listens to vLLM's KV events hears of each page that the daemon has, once, beside
the engine's own blocks.

Method: what the real scheduler publishes, against what the daemon counts.
"""
import collections

import pytest

import workload
from engine import connector

PUBLISHED = dict(enable_kv_cache_events=True, publisher="null")


def heard(engine, medium):
    return [(group, key) for kind, where, group, keys in engine.call("events")
            if kind == "BlockStored" and where == medium for key in keys]


@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_each_stored_page_is_told_once(model, engine, daemon, settle):
    prompts = workload.shared_prefixes(20)
    engine.start(model, connector(daemon.socket), kv_events_config=PUBLISHED)
    engine.call("record_events")
    engine.generate(prompts)
    settle(daemon, engine)
    engine.generate(workload.chats(2, seed=77), 40)  # steps in which what has ended is told
    counters = settle(daemon, engine)
    told = heard(engine, "CPU")
    assert told and not [key for key, n in collections.Counter(told).items() if n > 1]
    assert len(told) <= counters["pages_put_stored"]


def test_nothing_is_told_where_it_is_not_wanted(engine, daemon, settle):
    engine.start("llama", connector(daemon.socket, events="off"), kv_events_config=PUBLISHED)
    engine.call("record_events")
    engine.generate(workload.chats(4))
    settle(daemon, engine)
    told = engine.call("events")
    assert told and {medium for _, medium, _, _ in told} == {"GPU"}
