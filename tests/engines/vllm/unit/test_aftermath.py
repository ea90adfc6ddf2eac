# SPDX-License-Identifier: Apache-2.0
"""Goal: what a request or a life of the engine leaves behind harms nobody after it: no page is
spoken ill of, none is found whose bytes come from other weights, nothing is kept for good.

Method: rig.py with a real daemon; the model's values are salted where weights are to differ.
"""
import types

import pytest
from vllm.config import KVEventsConfig
from vllm.distributed.kv_events import BlockRemoved
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash

from kvsidecar.vllm.stores import Stores
from rig import PAGE
from scene import (GROUPS, daemon, filled, forget, make_rig, prompt, seed,  # noqa: F401
                   settle, whole)


def abort_while_loading(rig, daemon, one):
    rig.on_load.append(lambda request: daemon.pause())
    request = rig.add("aborted", one)
    rig.run(lambda: request.status.name == "WAITING_FOR_REMOTE_KVS")
    rig.step()
    rig.abort("aborted")
    rig.run()
    daemon.resume()
    rig.on_load.clear()


@pytest.mark.parametrize("specs", GROUPS)
def test_an_aborted_load_keeps_nobody_from_its_pages(make_rig, filled, daemon, specs):
    prompts = filled([prompt(1, 300)], specs=specs)
    rig = make_rig(specs=specs)
    abort_while_loading(rig, daemon, prompts[0])
    assert rig.hits == whole(prompts)
    rig.generate(prompts)
    assert rig.hits == 2 * whole(prompts)
    assert rig.counts()["failed_loads"] == 0
    assert rig.connector._scheduler._lookups._asks == {}
    rig.check_empty()


def run(rig, name, tokens, salt):
    """How many tokens of it were found, by an engine with these weights."""
    before = rig.hits
    rig.add(name, tokens, salt=salt)
    rig.run()
    rig.check_output(name, tokens)
    return rig.hits - before


def test_an_engine_of_the_same_id_does_not_find_what_another_life_kept_for_itself(
        make_rig, settle, monkeypatch):
    """Weights are trained on between lives; an operator may have given the engine its id."""
    monkeypatch.setattr("rig.uuid", types.SimpleNamespace(uuid4=lambda: "engine-0"))
    one = prompt(1, 150)
    for weights in (b"first", b"second"):
        rig = make_rig()
        rig.generate([prompt(9, 40)], name=str(weights))
        settle()
        assert rig.scheduler.reset_prefix_cache(reset_connector=True)
        assert run(rig, "r", one, weights) == 0
        settle()
        assert rig.scheduler.reset_prefix_cache()
        assert run(rig, "again", one, weights) == 4 * PAGE
        rig.close()


@pytest.mark.parametrize("on_reset", ["detach", "clear"])
def test_a_request_that_goes_on_over_a_reset_leaves_no_pages(make_rig, settle, on_reset):
    """vLLM resets the connector although its own reset was refused since requests are running."""
    rig = make_rig({"on_reset": on_reset})
    one = prompt(1, 100)
    rig.add("old", one, max_tokens=100, salt=b"old")
    rig.run(lambda: len(rig.outputs["old"]) > 10)
    assert not rig.scheduler.reset_prefix_cache(reset_connector=True)
    rig.run()
    one += rig.outputs["old"]
    for found in (0, 6 * PAGE):
        settle()
        assert rig.scheduler.reset_prefix_cache()
        assert run(rig, f"new{found}", one, b"new") == found
    rig.check_empty()


def test_a_request_that_waited_for_blocks_longer_than_its_lease_is_looked_up_anew(
        make_rig, filled):
    """And has the usual time for the answer."""
    prompts = filled([prompt(i, 10 * PAGE + 1) for i in range(2)])
    rig = make_rig({"spin_us": 0}, blocks=13, max_model_len=352)
    for i, tokens in enumerate(prompts):  # the second finds the first one's blocks gone
        rig.add(str(i), tokens, max_tokens=8)
        rig.run(lambda: (str(i), 10 * PAGE) in rig.asked)
    ask = rig.connector._scheduler._lookups._asks["1"]
    ask.first_ns -= 60_000_000_000
    for question in (ask.scout, ask.held):
        question.sent_ns -= 60_000_000_000
        question.lease_end_ns -= 60_000_000_000
    rig.run()
    assert rig.hits == whole(prompts)
    assert rig.counts()["lookup_late"] == 0
    rig.check_empty()


def test_pages_that_a_load_misses_are_told_as_gone(make_rig, filled):
    prompts = filled([prompt(1, 220)])
    rig = make_rig(kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"))
    told, take = [], rig.connector.take_events
    rig.connector.take_events = lambda: told.extend(take()) or ()
    rig.on_load.append(lambda request: forget(rig, "0", keep=2))
    rig.generate(prompts)
    gone = [found for event in told if isinstance(event, BlockRemoved)
            for found in event.block_hashes]
    hashes = rig.request("same", prompts[0]).block_hashes
    assert gone == [maybe_convert_block_hash(found) for found in hashes[2:6]]


def test_all_stores_that_have_ended_are_settled(make_rig, settle, daemon, monkeypatch):
    """Also those that a later step has seen ended when it took their blocks."""
    start = Stores.start
    monkeypatch.setattr(Stores, "start", lambda self, stores, after: [
        start(self, [store], after) for store in stores])  # an operation each
    rig = make_rig()
    stores = rig.workers[0].connector._worker._stores
    rig.connector._scheduler._can_load = False
    for i in range(3):
        rig.add(str(i), prompt(i, 2 * PAGE + 1), 1)
    daemon.pause()
    rig.step()
    daemon.resume()
    puts = list(stores._puts.values())
    assert len(puts) == 3
    settle()
    stores.give_up([block for put in puts for block in put.blocks])
    stores.settle()
    assert len(stores) == 0
    rig.run()
