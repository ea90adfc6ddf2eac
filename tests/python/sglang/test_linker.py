# SPDX-License-Identifier: Apache-2.0
"""Goal: door B restores exactly the bytes that were offloaded, in SGLang's order of calls, and a
fault costs a miss or, once a load has begun, that load.

Method: an engine of numpy memory with the linker (linker_scene.py) and a real daemon, which is
killed, stopped and robbed of pages at each step. K1, K2, K4.
"""
import pytest
from linker_scene import (
    Engine, HybridPool, MHATokenToKVPool, MLATokenToKVPool, SWAKVPool, hashes, in_thread, slots,
    wait_until)

PAGES = list(range(1, 9))
OTHERS = list(range(21, 29))


@pytest.fixture
def engine(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as made:
        yield made


def keys():
    return hashes(len(PAGES))


# The way of a prefix.


@pytest.mark.parametrize("kind", [MHATokenToKVPool, MLATokenToKVPool])
def test_every_byte_returns(daemon, tmp_path, kind):
    with Engine(tmp_path / "model", daemon.socket, kind(64)) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(keys(), PAGES)
        engine.wipe()
        assert engine.found(keys()) == list(range(1, 9))
        assert engine.load(keys(), OTHERS)
        index, landed = engine.forward()
        assert index == 0 and landed
        assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))
        assert (engine.read([1])[0] == 0xA5).all(), "other pages are as they were"


def test_memory_that_cant_be_shared_goes_through_staging(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket,
                MHATokenToKVPool(64, shareable=False)) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        assert engine.forward()[1]
        assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def test_a_load_may_be_shorter_than_what_was_found(engine):
    engine.fill(1)
    want = engine.read(PAGES[:3])
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys())
    assert engine.load(keys()[:3], OTHERS[:3])
    assert engine.forward()[1]
    assert all((got == page).all() for got, page in zip(engine.read(OTHERS[:3]), want))


def test_two_requests_are_loaded_by_one_forward(engine):
    engine.fill(1)
    mine, yours = hashes(4, "mine"), hashes(4, "yours")
    want = engine.read([1, 2, 3, 4, 5, 6, 7, 8])
    assert engine.offloaded(mine, [1, 2, 3, 4]) and engine.offloaded(yours, [5, 6, 7, 8])
    assert engine.found(mine, "a") and engine.found(yours, "b")
    assert engine.load(mine, OTHERS[:4], rid="a") and engine.load(yours, OTHERS[4:], rid="b")
    assert engine.forward() == (0, True)
    assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def test_a_forward_without_loads_waits_for_nothing(engine):
    assert engine.linker.start_layer_wise_loading() == -1
    assert engine.linker.finish_layer_wise_loading(-1)


def test_what_was_stored_is_found_by_another_engine(daemon, tmp_path, engine):
    engine.fill(1)
    want = engine.read(PAGES)
    assert engine.offloaded(keys(), PAGES)
    with Engine(tmp_path / "model", daemon.socket) as other:
        assert other.found(keys()) == list(range(1, 9))
        assert other.load(keys(), PAGES) and other.forward()[1]
        assert all((got == page).all() for got, page in zip(other.read(PAGES), want))


def test_a_gap_ends_what_is_found(engine):
    engine.fill(1)
    assert engine.offloaded(keys()[:3], PAGES[:3])
    assert engine.offloaded(keys()[4:], PAGES[4:])
    assert engine.found(keys()) == [1, 2, 3]


def test_a_tail_in_the_middle_of_a_prompt_is_asked_about_by_itself(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()[5:], "other") == [1, 2, 3]


# Lookups.


def test_an_answer_is_remembered_and_moves_with_the_tail(engine, monkeypatch):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()) == list(range(1, 9))
    monkeypatch.setattr(engine.linker._side._lookups, "_ask", None)  # whoever asks again fails
    assert engine.lookup(keys()) == list(range(1, 9))
    assert engine.lookup(keys()[2:]) == list(range(1, 7))


def test_another_prompt_of_the_same_request_is_another_question(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys())
    assert engine.lookup(hashes(8, "other")) == []


def test_pages_of_the_store_are_offered_when_they_are_in_the_host_pool(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, durable=True) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(keys(), PAGES)
    daemon.terminate()
    daemon.forget_pool()
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    with Engine(tmp_path / "model", daemon.socket) as engine:
        first = engine.lookup(keys())
        assert len(first) < len(PAGES)
        assert wait_until(lambda: engine.lookup(keys()) == list(range(1, 9)))
        assert engine.load(keys(), PAGES) and engine.forward()[1]
        assert all((got == page).all() for got, page in zip(engine.read(PAGES), want))


def test_a_key_that_is_no_hash_finds_nothing(engine):
    assert engine.lookup(["not a hash"]) == []
    assert engine.lookup([]) == []


# Hybrid models.


def test_every_byte_of_all_pools_returns(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, HybridPool(64)) as engine:
        engine.fill(1)
        want = engine.read(PAGES), engine.read([3, 4], "swa"), engine.read([5], "mamba")
        assert engine.offloaded(keys(), PAGES, swa=[3, 4], mamba=5)
        assert engine.found(keys()) == [8]
        assert engine.load(keys(), OTHERS, swa=[40, 41], mamba=6)
        assert engine.forward()[1]
        got = engine.read(OTHERS), engine.read([40, 41], "swa"), engine.read([6], "mamba")
        assert all((a == b).all() for x, y in zip(got, want) for a, b in zip(x, y))
        assert engine.params.req_to_token_pool.counters == [engine.linker.layer_done_counter]


def test_a_plain_window_model_is_put_together_here(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, SWAKVPool(64)) as engine:
        engine.fill(1)
        want = engine.read(PAGES), engine.read([3, 4], "swa")
        assert engine.offloaded(keys(), PAGES, swa=[3, 4])
        assert engine.found(keys()) == [8]
        assert engine.load(keys(), OTHERS, swa=[40, 41]) and engine.forward()[1]
        got = engine.read(OTHERS), engine.read([40, 41], "swa")
        assert all((a == b).all() for x, y in zip(got, want) for a, b in zip(x, y))


def test_only_lengths_that_all_pools_can_restore_are_offered(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, HybridPool(64)) as engine:
        engine.fill(1)
        chain = hashes(3)
        # Windows are whole at the ends of 1 and 3 pages, states are there at 1 and 2: 1, not 2.
        assert engine.offloaded(chain[:1], [1], swa=[1], mamba=1)
        assert engine.offloaded(chain[1:2], [2], mamba=2)
        assert engine.offloaded(chain[2:], [3])
        assert engine.found(chain) == [1]


def test_a_state_that_is_missing_leaves_nothing(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, HybridPool(64)) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES, swa=[1, 2])
        assert engine.lookup(keys()) == []


# Faults.


def test_a_page_that_has_gone_since_the_lookup_fails_the_load(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, lease_s=0.1) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys())
        assert engine.load(keys(), OTHERS)
        client = engine.linker._side.session.client
        gone = client.delete(engine.linker._side.session.namespace("kv"),
                             bytes.fromhex(keys()[3]), key_bytes=32).result()
        assert gone.ok
        assert engine.forward() == (0, False)
        assert engine.found(keys(), "again") == [1, 2, 3]


def test_a_failed_load_leaves_the_next_one_alone(engine):
    engine.fill(1)
    want = engine.read(PAGES)
    assert engine.offloaded(keys(), PAGES)
    assert engine.load(hashes(2, "never stored"), OTHERS[:2])
    assert engine.forward() == (0, False)
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    assert engine.forward() == (1, True)
    assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def test_without_a_daemon_nothing_is_found_and_nothing_stored(tmp_path, library, caplog):
    with Engine(tmp_path / "model", str(tmp_path / "nobody"), connect_timeout_s=0.01) as engine:
        assert engine.lookup(keys()) == []
        assert not engine.offloaded(keys(), PAGES)
        assert not engine.offloaded(keys(), PAGES)
        assert not engine.load(keys(), PAGES), "the engine computes"
        assert engine.linker.start_layer_wise_loading() == -1
    assert sum("no daemon takes this engine" in line for line in caplog.messages) == 1


def test_a_daemon_that_comes_later_is_used(daemon, tmp_path):
    daemon.terminate()
    with Engine(tmp_path / "model", daemon.socket, connect_timeout_s=0.01,
                attach_timeout_s=0.01) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert not engine.offloaded(keys(), PAGES)
        daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
        wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        assert engine.forward()[1]
        assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def test_a_daemon_that_is_killed_ends_a_load_that_it_hadnt_begun(daemon, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    daemon.pause()
    index = engine.linker.start_layer_wise_loading()
    finished = in_thread(lambda: engine.linker.finish_layer_wise_loading(index))
    assert finished.running()
    daemon.kill()
    assert finished() is False
    daemon.start()


def test_a_request_whose_daemon_has_gone_since_the_lookup_is_computed(daemon, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys())
    daemon.kill()
    wait_until(lambda: not engine.linker._side.session.connected)
    assert not engine.load(keys(), OTHERS)
    daemon.start()


def test_a_stopped_daemon_ends_a_load_at_its_deadline(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, load_timeout_s=0.2) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        engine.wipe()
        daemon.pause()
        assert engine.forward() == (0, False)
        assert engine.lookup(keys(), "other") == []
        assert engine.linker.num_completed_offloads() == 0
        daemon.resume()
        assert engine.found(keys(), "third"), "the daemon has served what came before"
        assert (engine.read(OTHERS)[0] == 0xA5).all(), "pages of a revoked load are the engine's"


def test_a_stopped_daemon_ends_an_offload_at_its_deadline(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, store_timeout_s=0.2) as engine:
        engine.fill(1)
        daemon.pause()
        assert not engine.offloaded(keys(), PAGES)
        daemon.resume()


# Order and cancelling.


def test_a_queued_load_can_be_cancelled_and_a_started_one_not(engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    assert engine.linker.cancel_queued_load("r")
    assert not engine.linker.cancel_queued_load("r")
    assert engine.linker.start_layer_wise_loading() == -1
    assert engine.found(keys()) and engine.load(keys(), OTHERS)
    index = engine.linker.start_layer_wise_loading()
    assert not engine.linker.cancel_queued_load("r")
    assert engine.linker.finish_layer_wise_loading(index)


def test_offloads_end_in_the_order_they_came(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, store_timeout_s=20) as engine:
        engine.fill(1)
        assert engine.offloaded(keys()[:1], PAGES[:1])
        daemon.pause()
        assert engine.offload(keys()[1:], PAGES[1:])
        assert engine.offload(keys()[:1], PAGES[:1]), "known, so it needs no daemon"
        assert engine.linker.num_completed_offloads() == 0
        daemon.resume()
        assert wait_until(lambda: engine.linker.num_completed_offloads() == 2)
        assert engine.linker.pop_completed_offload() and engine.linker.pop_completed_offload()
        assert engine.linker.num_completed_offloads() == 0


def test_pages_that_were_loaded_are_offloaded_again_at_no_cost(daemon, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    engine.linker._side._offloads.forget()
    assert engine.found(keys()) and engine.load(keys(), OTHERS) and engine.forward()[1]
    daemon.pause()
    assert engine.offload(keys(), OTHERS)
    assert engine.linker.num_completed_offloads() == 1 and engine.linker.pop_completed_offload()
    daemon.resume()


def test_transfers_about_no_page_are_no_offload(engine):
    assert not engine.linker.offload([])
    assert not engine.linker.load("r", [])


@pytest.mark.parametrize("indices", [
    slots([1])[:-1], slots([1]) + 1, slots([1000]), slots([1, 2])])
def test_indices_that_arent_whole_pages_are_refused_without_raising(engine, indices, caplog):
    transfer = engine._transfers(hashes(1))[0]
    transfer.device_indices = indices
    assert not engine.linker.offload([transfer])
    assert not engine.linker.load("r", [transfer])
    assert "page" in caplog.text
