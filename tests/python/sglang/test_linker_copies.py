# SPDX-License-Identifier: Apache-2.0
"""Goal: while a daemon that was stopped in the middle of a copy may go on, the pages are its:
layers are resolved by the deadline, finish waits, and what was told as done is right. What it reads
too late of an offload is never stored.

Method: SIGSTOP as soon as a claim word says that an item is being copied; a stop that came too late
is undone and tried again. Then the daemon goes on, or is killed.
"""
import os
import sys

import pytest
from linker_scene import (
    LAYERS, Engine, MHATokenToKVPool, hashes, in_thread, wait_until)

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(TESTS, "process"), os.path.join(TESTS, "engines", "vllm")]

from copies import AtCopy, claim_words  # noqa: E402
from raw_peer import COPYING  # noqa: E402

ROW_BYTES = 16 << 10
PAGES, OTHERS = list(range(1, 13)), list(range(21, 33))
ATTEMPTS = 40


def is_copying(daemon):
    return any(((words & 0xFF) == COPYING).any() for words in claim_words(daemon))


def stopped_in_a_copy(daemon, engine):
    """(index, layers told as done, a wait for finish) of a load that stands in the middle."""
    for attempt in range(ATTEMPTS):
        assert engine.found(hashes(len(PAGES)), f"r{attempt}")
        assert engine.load(hashes(len(PAGES)), OTHERS, rid=f"r{attempt}")
        with AtCopy(daemon, daemon.pause) as at_copy:
            index = engine.linker.start_layer_wise_loading()
            layers = list(engine.linker.layer_done_counter.futures[index])
            wait_until(lambda: at_copy.seen or all(layer.done() for layer in layers))
        if at_copy.seen and is_copying(daemon):
            return index, layers, in_thread(
                lambda: engine.linker.finish_layer_wise_loading(index))
        daemon.resume()
        engine.linker.finish_layer_wise_loading(index)
    raise AssertionError("no copy was seen")


@pytest.mark.parametrize("end", ["goes on", "is killed"])
def test_a_daemon_that_is_stopped_in_the_middle_of_a_copy(daemon, tmp_path, end):
    kvcache = MHATokenToKVPool(40, row_bytes=ROW_BYTES)
    with Engine(tmp_path / "model", daemon.socket, kvcache, load_timeout_s=1) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(hashes(len(PAGES)), PAGES)
        index, layers, finished = stopped_in_a_copy(daemon, engine)
        try:
            check_layers(layers, finished, engine.read(OTHERS), want)
        except BaseException:
            daemon.kill()  # the engine's end would wait for it
            raise
        if end == "is killed":
            daemon.kill()
        else:
            daemon.resume()
        assert finished() is False
        if end == "is killed":
            daemon.start()
            return
        assert not is_copying(daemon)
        assert engine.found(hashes(len(PAGES)), "again")
        assert engine.load(hashes(len(PAGES)), OTHERS, rid="again") and engine.forward()[1]
        assert all((a == b).all() for a, b in zip(engine.read(OTHERS), want))


def test_a_daemon_that_is_stopped_while_it_copies_into_the_staging_area(daemon, tmp_path):
    kvcache = MHATokenToKVPool(60, row_bytes=ROW_BYTES, shareable=False)
    with Engine(tmp_path / "model", daemon.socket, kvcache, load_timeout_s=1) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        assert engine.offloaded(hashes(len(PAGES)), PAGES)
        finished = stopped_in_a_copy(daemon, engine)[2]
        assert finished() is False, "nobody has to wait: the pages aren't the daemon's"
        engine.wipe()
        daemon.resume()
        elsewhere = range(41, 41 + len(PAGES))
        assert engine.found(hashes(len(PAGES)), "again")
        assert engine.load(hashes(len(PAGES)), elsewhere, rid="again") and engine.forward()[1]
        assert all((a == b).all() for a, b in zip(engine.read(elsewhere), want))
        assert all((rows == 0xA5).all() for rows in engine.read(OTHERS)), "late bytes stay out"


def offload_stopped_in_a_copy(daemon, engine):
    """The keys of an offload whose copy stood still until its deadline was past."""
    for attempt in range(ATTEMPTS):
        chain = hashes(len(PAGES), f"offload {attempt}")
        with AtCopy(daemon, daemon.pause) as at_copy:
            assert engine.offload(chain, PAGES)
            wait_until(lambda: at_copy.seen or engine.linker.num_completed_offloads())
        copying = at_copy.seen and is_copying(daemon)
        if not engine.pop() and copying:
            return chain
        if at_copy.seen:
            daemon.resume()
    raise AssertionError("no copy was seen")


def test_pages_that_are_written_anew_after_an_offloads_deadline_arent_stored(daemon, tmp_path):
    kvcache = MHATokenToKVPool(40, row_bytes=ROW_BYTES)
    with Engine(tmp_path / "model", daemon.socket, kvcache, store_timeout_s=0.3) as engine:
        engine.fill(1)
        want = engine.read(PAGES)
        chain = offload_stopped_in_a_copy(daemon, engine)
        engine.wipe()  # SGLang has unlocked them
        daemon.resume()
        assert engine.offloaded(hashes(1, "behind it"), PAGES[:1]), "all of before has settled"
        found = engine.lookup(chain)
        if found:
            count = found[-1]
            assert engine.load(chain[:count], OTHERS[:count]) and engine.forward()[1]
            for got, page in zip(engine.read(OTHERS[:count]), want):
                assert (got == page[:len(got)]).all()


def check_layers(layers, finished, got, want):
    """All resolved, not all well, and those that are hold what they should."""
    wait_until(lambda: all(layer.done() for layer in layers))
    assert finished.running(), "pages may still be written"
    whole = [layer.exception() is None for layer in layers]
    assert not all(whole)
    for layer in range(whole.index(False)):
        for buffer in (layer, LAYERS + layer):
            assert (got[buffer] == want[buffer]).all()
