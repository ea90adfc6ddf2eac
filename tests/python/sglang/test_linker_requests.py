# SPDX-License-Identifier: Apache-2.0
"""Goal: requests that are aborted, retracted, computed or alike get their own pages or none, and
give back what they held.

Method: an engine of numpy memory (linker_scene.py) and a real daemon. K1, K2.
"""
import pytest
from linker_scene import OTHERS, PAGES, Engine, loads_right, wait_until
from linker_scene import eight_keys as keys


@pytest.fixture
def engine(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as made:
        yield made


def test_a_request_that_was_aborted_before_its_load_began_is_looked_up_again(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    for _ in range(3):
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        assert not engine.load(keys(), OTHERS), "it is queued already"
        assert engine.linker.cancel_queued_load("r")
    assert loads_right(engine, "r")


def test_a_request_that_is_retracted_loads_again_under_its_name(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert loads_right(engine, "r") and loads_right(engine, "r")


def test_requests_with_the_same_prompt_are_loaded_by_one_forward(engine):
    engine.fill(1)
    want = engine.read(PAGES)
    assert engine.offloaded(keys(), PAGES)
    places = {"a": OTHERS, "b": list(range(41, 49))}
    for rid, pages in places.items():
        assert engine.found(keys(), rid) and engine.load(keys(), pages, rid=rid)
    assert engine.forward() == (0, True)
    for pages in places.values():
        assert all((got == page).all() for got, page in zip(engine.read(pages), want))


def test_pages_that_fail_again_and_again_are_computed(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    begun = engine.linker._side._get

    def corrupt(pages):
        op = begun(pages)
        result = op.result()
        result._items = result._items[:5] + b"\x0a" + result._items[6:]
        return op

    engine.linker._side._get = corrupt
    assert engine.forward() == (0, False)
    assert engine.found(keys(), "next") == [1, 2, 3, 4, 5]
    engine.linker._side._get = begun
    assert engine.load(keys()[:5], OTHERS[:5], rid="next") and engine.forward()[1]


def test_requests_that_are_computed_leave_the_leases_to_others(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    for number in range(400):  # a quarter of the daemon's pool has room for 128 such leases
        engine.lookup(keys(), f"computed {number}")
        assert engine.linker.start_layer_wise_loading() == -1
    assert loads_right(engine, "loaded")
    counters = engine.linker._side.session.client.stat().result().json()["counters"]
    assert counters["leases_capped"] == 0 < counters["leases_given"]


def test_a_load_that_is_refused_gives_its_lease_back(engine, monkeypatch):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys())
    client = engine.linker._side.session.client
    assert client.stat().result().json()["leases"]["count"] == 1
    with monkeypatch.context() as patch:
        patch.setattr(engine.linker._side, "_can_get", lambda promise: False)
        assert not engine.load(keys(), OTHERS)
    wait_until(lambda: not client.stat().result().json()["leases"]["count"])
    assert loads_right(engine, "r")
