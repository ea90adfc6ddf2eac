# SPDX-License-Identifier: Apache-2.0
"""Goal: a daemon that stands still, comes back in another shape, is full or refuses costs a miss at
most; bytes are right whenever something is loaded.

Method: an engine of numpy memory (linker_scene.py) and a real daemon that is stopped, killed and
started in another shape between SGLang's calls. K1, K2.
"""
import os
import socket
import sys

import pytest
from linker_scene import (
    OTHERS, PAGE, PAGES, Engine, MHATokenToKVPool, hashes, in_thread, loading_threads, loads_right,
    sessions, slots, wait_until)
from linker_scene import eight_keys as keys

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TESTS, "process"))

import raw_peer  # noqa: E402


@pytest.fixture
def engine(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as made:
        yield made


def test_a_daemon_that_stands_still_costs_a_miss_at_each_step_and_goes_on(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, store_timeout_s=0.2, load_timeout_s=0.2,
                attach_timeout_s=0.2) as engine:
        engine.fill(1)
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        daemon.pause()
        assert engine.lookup(keys()) == []
        assert not engine.offloaded(keys("others"), OTHERS)
        engine.linker.reset()
        assert engine.lookup(keys(), "after the reset") == []
        daemon.resume()
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert loads_right(engine, "at the end")


def test_a_reset_that_clears_while_the_daemon_stands_still_leaves_nothing(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, attach_timeout_s=0.2,
                on_reset="clear") as engine:
        engine.fill(1)
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        daemon.pause()
        engine.linker.reset()
        daemon.resume()
        assert not wait_until(lambda: [engine.lookup(keys(), "after")])[0]
        assert not engine.offloaded(keys("others"), PAGES)
        engine.linker.reset()
        assert engine.lookup(keys(), "cleared") == []
        assert wait_until(lambda: engine.offloaded(keys(), PAGES))
        assert loads_right(engine, "at the end")


def test_an_answer_that_a_stopped_daemon_gives_later_is_used(daemon, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES)
    daemon.pause()
    assert engine.lookup(keys()) == []
    daemon.resume()
    assert loads_right(engine, "r")


@pytest.mark.parametrize("on_reset", ["detach", "keep"])
def test_an_answer_that_comes_after_a_reset_is_of_before(daemon, tmp_path, on_reset):
    with Engine(tmp_path / "model", daemon.socket, on_reset=on_reset) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        daemon.pause()
        assert engine.lookup(keys()) == []
        engine.linker.reset()
        assert not engine.linker._side._lookups._asks
        daemon.resume()
        if on_reset == "keep":
            assert loads_right(engine, "r")
        else:
            assert engine.lookup(keys()) == []
            assert wait_until(lambda: engine.offloaded(keys("new"), PAGES))
            assert engine.lookup(keys()) == []


def test_a_daemon_that_is_killed_while_it_prefetches(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket, durable=True) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(keys(), PAGES)
    daemon.terminate()
    daemon.forget_pool()
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.lookup(keys())
        daemon.kill()
        daemon.forget_pool()
        daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
        wait_until(lambda: engine.lookup(keys(), "again") == list(range(1, 9)))
        assert engine.load(keys(), OTHERS, rid="again") and engine.forward()[1]
        assert all((got == page).all() for got, page in zip(engine.read(OTHERS), want))


def test_a_close_beside_a_daemon_that_stands_still(daemon, tmp_path):
    engine = Engine(tmp_path / "model", daemon.socket)
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES) and engine.found(keys())
    daemon.pause()
    assert engine.load(keys(), OTHERS)
    engine.linker.start_layer_wise_loading()
    closed = in_thread(engine.linker.close)
    closed()
    assert not loading_threads()
    daemon.resume()
    wait_until(lambda: sessions(daemon) == 0)


def test_a_daemon_that_comes_back_with_another_pool(daemon, engine):
    engine.fill(1)
    assert engine.offloaded(keys(), PAGES) and engine.found(keys())
    daemon.kill()
    daemon.forget_pool()
    daemon.sections["host_pool"].update(bytes="32MiB", chunk_bytes="16MiB", span_bytes="2MiB")
    daemon.sections["store"]["root"] = daemon.path("another")
    os.makedirs(daemon.path("another"))
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    wait_until(lambda: engine.linker._side.session.connected)
    assert not engine.load(keys(), OTHERS), "what was promised has gone"
    assert engine.lookup(keys()) == []
    assert wait_until(lambda: engine.offloaded(keys(), PAGES)), "known pages are forgotten"
    assert loads_right(engine, "new")


MANY = 160  # pages of 512 KiB each: more than the daemon's 64 MiB


@pytest.fixture
def without_store(daemon):
    daemon.terminate()
    daemon.sections["store"] = {"kind": "none"}
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    return daemon


def test_a_lease_that_ends_before_the_load_costs_that_load_and_no_byte(without_store, tmp_path):
    with Engine(tmp_path / "model", without_store.socket,
                MHATokenToKVPool(MANY + 40, row_bytes=4096), lease_s=0.1) as engine:
        client = engine.linker._side.session.client
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
        assert engine.found(keys()) and engine.load(keys(), OTHERS)
        wait_until(lambda: not client.stat().result().json()["leases"]["count"])
        chain = hashes(MANY, "pressure")
        for begin in range(0, MANY, 10):
            engine.offloaded(chain[begin:begin + 10], range(40 + begin, 50 + begin))
        assert client.stat().result().json()["counters"]["pages_evicted"] > 0
        assert engine.forward() == (0, False)
        assert engine.lookup(keys(), "again") == []


def test_a_pool_that_is_full_stores_less_and_says_so(without_store, tmp_path):
    pages = MANY
    with Engine(tmp_path / "model", without_store.socket,
                MHATokenToKVPool(2 * pages, row_bytes=4096)) as engine:
        engine.fill(1)
        want = engine.read(range(pages))
        chain = hashes(pages)
        for begin in range(0, pages, 10):
            engine.offloaded(chain[begin:begin + 10], range(begin, begin + 10))
        for begin in range(0, pages, 10):
            some = chain[begin:begin + 10]
            found = engine.lookup(some, f"from {begin}")
            if found:
                count = found[-1]
                assert engine.load(some[:count], range(pages, pages + count), rid=f"from {begin}")
                if engine.forward()[1]:
                    for got, all_of_it in zip(engine.read(range(pages, pages + count)), want):
                        rows = slots(range(begin, begin + count))
                        assert (got == all_of_it[rows]).all()
        counts = engine.linker.counts
        assert counts["stored"] + counts["not_stored"] == counts["offloads"] == pages // 10
        assert counts["loads"] > 0


def test_thousands_of_pages_at_once(daemon, tmp_path):
    pages = 2500
    with Engine(tmp_path / "model", daemon.socket,
                MHATokenToKVPool(2 * pages, row_bytes=16)) as engine:
        engine.fill(1)
        want = engine.read(range(pages))
        assert engine.offloaded(hashes(pages), range(pages))
        assert engine.found(hashes(pages)) == list(range(1, pages + 1))
        assert engine.load(hashes(pages), range(pages, 2 * pages)) and engine.forward()[1]
        assert all((got == page).all()
                   for got, page in zip(engine.read(range(pages, 2 * pages)), want))


def test_a_load_of_more_than_the_staging_area_holds(daemon, tmp_path):
    daemon.terminate()
    daemon.sections["host_pool"]["bytes"] = "256MiB"
    daemon.start().log_has(r"(?s)" + ".*".join(["chunk_ready"] * 4))
    pages = 80  # of 1 MiB; 64 MiB are staged at once
    kvcache = MHATokenToKVPool(2 * pages, shareable=False, row_bytes=8192)
    with Engine(tmp_path / "model", daemon.socket, kvcache) as engine:
        engine.fill(1)
        want = engine.read(range(pages))
        assert engine.offloaded(hashes(pages), range(pages))
        found = engine.found(hashes(pages))[-1]
        assert engine.load(hashes(pages)[:found], range(pages, pages + found))
        assert engine.forward()[1] and found > 64
        for got, page in zip(engine.read(range(pages, pages + found)), want):
            assert (got == page[:found * PAGE]).all()


# Daemons that refuse.


def serves_without(engine):
    """Every call has its answer, and nothing is stored."""
    assert engine.lookup(keys()) == []
    assert not engine.offloaded(keys(), PAGES)
    assert not engine.load(keys(), OTHERS)
    assert engine.linker.start_layer_wise_loading() == -1
    engine.linker.reset()
    return engine.lookup(keys()) == [] and not engine.offloaded(keys(), PAGES)


def test_a_daemon_of_another_protocol_version(daemon, tmp_path, caplog):
    path = str(tmp_path / "newer")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()

        def relay():  # a HELLO of the next version
            client, _ = listening.accept()
            with client, raw_peer.Door(daemon.socket) as door:
                fields = list(raw_peer.HELLO.unpack(client.recv(4096)))
                fields[2] += 1
                door.send(raw_peer.HELLO.pack(*fields))
                client.send(door.socket.recv(4096))
            return True

        relayed = in_thread(relay)
        with Engine(tmp_path / "model", path) as engine:
            assert relayed()
            assert serves_without(engine)
    assert "speaks protocol 2.0" in caplog.text and "update the older" in caplog.text


def test_memory_that_the_daemon_refuses(daemon, tmp_path, caplog):
    daemon.terminate()
    daemon.allow[0]["region_bytes_max"] = 1 << 16
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    with Engine(tmp_path / "model", daemon.socket) as engine:
        assert serves_without(engine)
    assert "the daemon refused the KV cache's memory" in caplog.text
    assert "region_bytes_max" in caplog.text


def test_an_engine_that_may_only_read(daemon, tmp_path):
    with Engine(tmp_path / "model", daemon.socket) as engine:
        engine.fill(1)
        assert engine.offloaded(keys(), PAGES)
    daemon.terminate()
    daemon.allow[0]["permissions"] = ["read", "admin"]
    daemon.start().log_has(r"(?s)chunk_ready.*chunk_ready")
    with Engine(tmp_path / "model", daemon.socket) as engine:
        assert not engine.offloaded(keys("new"), OTHERS)
        assert engine.found(keys()) and engine.load(keys(), OTHERS) and engine.forward()[1]
