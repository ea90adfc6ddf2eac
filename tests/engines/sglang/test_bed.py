# SPDX-License-Identifier: Apache-2.0
"""Goal: the test bed itself is right: SGLang's real controllers and engines run on a CPU, what a
storage keeps comes back byte by byte, and its oracles notice a wrong byte.

Method: storages of our own that keep everything in a dict (recording.py, recording_linker.py), and
the same with every byte that they give back changed.
"""
import json

import pools
import pytest
from controllers import WINDOW, Rig, tokens_of
from engine import linker, prompt, storage
from waiting import eventually

PAGES = 5
# (kinds of pools, layout, whether it is the controller for several pools)
CASES = [(kinds, layout, False) for kinds in (("mha",), ("mla",)) for layout in pools.LAYOUTS] + [
    (kinds, layout, True)
    for kinds, layouts in ((("mha",), pools.LAYOUTS), (("mla",), pools.LAYOUTS),
                           (("mha", "swa"), pools.LAYOUTS),
                           (("mha", "swa", "mamba"), pools.PAGE_FIRST),
                           (("mla", "mamba"), pools.PAGE_FIRST),
                           (("mla+indexer",), pools.PAGE_FIRST))
    for layout in layouts]
TAILS = {"swa": WINDOW, "mamba": 1}
RECORDING = "recording:Recording"
LINKER = "recording_linker:RecordingLinker"
# 15 pages and a rest, and another with the same beginning.
LONG, RELATED = prompt(1, 1000), prompt(1, 500) + prompt(2, 300)


# Controllers.


@pytest.mark.parametrize("kinds, layout, hybrid", CASES)
def test_every_byte_returns_by_the_controllers(kinds, layout, hybrid):
    with Rig(RECORDING, kinds, layout, hybrid) as rig:
        rig.fill(seed=1)
        here, there = rig.slots(1, PAGES), rig.slots(20, PAGES, state=7)
        want = rig.read(here)
        done = rig.backup(tokens_of(1, PAGES), here)
        rig.wipe()
        got = rig.prefetch(tokens_of(1, PAGES))
        assert rig.read(there) != want
        rig.load(got, there)
        assert rig.read(there) == want
        assert done.tokens == got.hit_tokens == got.tokens == PAGES * pools.PAGE
        assert got.pool_hits == {name: hits for name, hits in TAILS.items() if name in kinds}


def test_one_changed_byte_is_noticed():
    with Rig(RECORDING) as rig:
        rig.fill(seed=1)
        here = rig.slots(1, PAGES)
        want = rig.read(here)
        rig.backup(tokens_of(1, PAGES), here)
        page = next(iter(rig.backend.pages.values()))
        page[0] = page[0][:-1] + bytes([page[0][-1] ^ 1])
        rig.load(rig.prefetch(tokens_of(1, PAGES)), here)
        assert rig.read(here) != want


def test_a_query_stops_at_the_first_page_that_is_missing():
    with Rig(RECORDING, hybrid=True) as rig:
        rig.fill(seed=1)
        done = rig.backup(tokens_of(1, PAGES), rig.slots(1, PAGES))
        del rig.backend.pages[pools.PoolName.KV, done.hashes[3]]
        assert rig.query(tokens_of(1, PAGES)).storage_hit_count == 3 * pools.PAGE


@pytest.mark.parametrize("layout", pools.LAYOUTS)
def test_a_fetch_writes_its_own_pages_of_the_host_alone(layout):
    with Rig(RECORDING, ("mha", "swa"), layout) as rig:
        rig.fill(seed=1)
        rig.backup(tokens_of(1, PAGES), rig.slots(1, PAGES))
        rig.wipe()
        before = {name: part.host_pages() for name, part in rig.parts.items()}
        got = rig.prefetch(tokens_of(1, PAGES))
        for name, part in rig.parts.items():
            changed = [page for page, (old, new) in enumerate(zip(before[name], part.host_pages()))
                       if old != new]
            assert changed == (got.host[name][::pools.PAGE] // pools.PAGE).tolist()


def test_more_than_a_batch_of_pages_comes_in_several_calls():
    pages = 130
    with Rig(RECORDING, pages=2 * pages) as rig:
        rig.fill(seed=1)
        here, there = rig.slots(1, pages), rig.slots(pages + 1, pages)
        want = rig.read(here)
        rig.backup(tokens_of(1, pages), here)
        rig.wipe()
        rig.load(rig.prefetch(tokens_of(1, pages)), there)
        assert rig.read(there) == want
        assert [call for call in rig.backend.calls if call[0] == "batch_set_v1"] == [
            ["batch_set_v1", 128], ["batch_set_v1", 2]]


@pytest.mark.parametrize("rank, calls", [(0, ["batch_set_v2", "batch_set_v1"]),
                                         (1, ["batch_set_v2"])])
def test_of_mla_the_first_rank_stores_pages_and_each_its_states(rank, calls):
    with Rig(RECORDING, ("mla", "mamba"), rank=rank, ranks=2) as rig:
        rig.backup(tokens_of(1, PAGES), rig.slots(1, PAGES))
        assert [name for name in rig.backend.names() if "set" in name] == calls


@pytest.mark.parametrize("kinds", [("mha",), ("mla",)])
def test_memory_of_the_shm_allocator_has_a_descriptor(kinds):
    with Rig(RECORDING, kinds, allocator="shm") as rig:
        rig.fill(seed=1)
        here = rig.slots(1, PAGES)
        want = rig.read(here)
        rig.backup(tokens_of(1, PAGES), here)
        rig.wipe()
        rig.load(rig.prefetch(tokens_of(1, PAGES)), here)
        assert rig.read(here) == want
        assert rig.kv.host.allocator.fds == [rig.kv.host.fd]


def test_the_old_interface_hands_over_whole_pages_as_tensors():
    with Rig(RECORDING, interface_v1=0) as rig:
        rig.fill(seed=1)
        here = rig.slots(1, PAGES)
        want = rig.read(here)
        rig.backup(tokens_of(1, PAGES), here)
        rig.wipe()
        rig.load(rig.prefetch(tokens_of(1, PAGES)), here)
        assert rig.read(here) == want
        assert "batch_set" in rig.backend.names() and "batch_set_v1" not in rig.backend.names()


# Engines.


class Calls:
    """What a storage in an engine's process has been asked, and its poison."""

    def __init__(self, folder):
        self.calls, self.poison = folder / "calls", folder / "poison"
        self.extra = dict(calls=str(self.calls), poison=str(self.poison))

    def __call__(self, name):
        if not self.calls.exists():
            return []
        told = [json.loads(line) for line in self.calls.read_text().splitlines()]
        return [call[1:] for call in told if call[0] == name]

    def wait_for_pages(self, name, pages):
        """Until that call has got so many pages of KV."""
        eventually(lambda: sum(_pages(call) for call in self(name)) >= pages, f"{pages} pages")


def _pages(call):
    return call[0]["kv"] if isinstance(call[0], dict) else call[0]


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path)


def same(outputs, reference):
    return [output.ids for output in outputs] == [output.ids for output in reference] and all(
        got == pytest.approx(want, abs=1e-4)
        for output, wanted in zip(outputs, reference)
        for got, want in zip(output.logprobs, wanted.logprobs))


@pytest.mark.parametrize("layout, io", [("page_first", "kernel"), ("layer_first", "direct"),
                                        ("page_first_direct", "direct")])
def test_an_engine_continues_from_storage(engine, reference, calls, layout, io):
    want = reference("llama", [LONG])
    engine.start(**storage(RECORDING, layout, io, **calls.extra))
    cold = engine.generate([LONG])
    assert same(cold, want) and cold[0].cached == 0
    calls.wait_for_pages("batch_set_v1", 15)
    engine.flush_cache()
    warm = engine.generate([LONG])
    assert same(warm, want)
    assert warm[0].sources["storage"] == warm[0].cached == 15 * pools.PAGE
    assert engine.generate([RELATED])[0].cached == 7 * pools.PAGE
    engine.flush_cache()
    calls.poison.write_text("kv")
    assert not same(engine.generate([LONG]), want)


def test_host_memory_of_an_engine_can_be_shared_memory(engine, reference, calls):
    engine.start(**storage(RECORDING, allocator="shm", **calls.extra))
    engine.generate([LONG])
    calls.wait_for_pages("batch_set_v1", 15)
    engine.flush_cache()
    warm = engine.generate([LONG])
    assert same(warm, reference("llama", [LONG]))
    assert warm[0].sources["storage"] == 15 * pools.PAGE


def test_an_engine_with_a_sliding_window_asks_for_its_pool_too(engine, reference, calls):
    want = reference("mellum", [LONG])
    engine.start("mellum", **storage(RECORDING, **calls.extra))
    assert same(engine.generate([LONG]), want)
    calls.wait_for_pages("batch_set_v1", 15)
    engine.flush_cache()
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == 15 * pools.PAGE
    assert {"swa"} <= calls("batch_set_v2")[0][0].keys()
    engine.flush_cache()
    calls.poison.write_text("swa")
    assert not same(engine.generate([LONG]), want)


@pytest.mark.parametrize("model", ["llama", "mellum"])
def test_an_engine_continues_from_a_linker(engine, reference, calls, model):
    want = reference(model, [LONG])
    engine.start(model, **linker(LINKER, **calls.extra))
    cold = engine.generate([LONG])
    assert same(cold, want) and cold[0].cached == 0
    calls.wait_for_pages("offload", 15)
    engine.flush_cache()
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].cached == 15 * pools.PAGE
    engine.flush_cache()
    calls.poison.write_text("kv")
    assert not same(engine.generate([LONG]), want)


def test_a_request_whose_load_fails_gets_an_error(engine, reference, calls, tmp_path):
    fails = tmp_path / "fails"
    engine.start(**linker(LINKER, fail_loads=str(fails), **calls.extra))
    engine.generate([LONG])
    engine.flush_cache()
    fails.touch()
    assert "External KV cache load failed" in engine.generate([LONG])[0].reason
    fails.unlink()
    assert same(engine.generate([LONG]), reference("llama", [LONG]))


def test_an_engine_with_latent_attention_continues_from_storage(engine, reference, calls):
    want = reference("deepseek2", [LONG])
    engine.start("deepseek2", **storage(RECORDING, **calls.extra))
    assert same(engine.generate([LONG]), want)
    calls.wait_for_pages("batch_set_v1", 15)
    engine.flush_cache()
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == 15 * pools.PAGE
    engine.flush_cache()
    calls.poison.write_text("kv")
    assert not same(engine.generate([LONG]), want)


@pytest.mark.parametrize("model, stored", [("llama", 2 * 15), ("deepseek2", 15)])
def test_two_ranks_have_a_storage_each(engine, reference, calls, model, stored):
    engine.start(model, tp_size=2, **storage(RECORDING, **calls.extra))
    engine.generate([LONG])
    calls.wait_for_pages("batch_set_v1", stored)
    engine.flush_cache()
    assert sum(map(_pages, calls("batch_set_v1"))) == stored and len(calls("__init__")) == 2
    # Recordings share nothing: what only one rank has stored, both compute.
    warm = engine.generate([LONG])
    assert same(warm, reference(model, [LONG]))
    assert warm[0].cached == (15 * pools.PAGE if model == "llama" else 0)


def test_a_request_can_be_aborted_while_others_go_on(engine, reference):
    engine.start()
    engine.submit({"long": LONG}, max_new_tokens=2000)
    engine.submit({"short": RELATED})
    engine.abort("long")
    long, short = engine.collect("long", "short")
    assert long.reason == "abort" and same([short], reference("llama", [RELATED]))


def test_an_engine_dies_with_what_it_has_started(engine, calls):
    pids = engine.start(**storage(RECORDING, **calls.extra))["schedulers"]
    with open(f"/proc/{pids[0]}/stat", encoding="utf-8") as stat:
        assert stat.read().split()[5] == str(engine.process.pid), "another session"
    engine.kill()
    eventually(lambda: not any(_lives(pid) for pid in pids), "the schedulers have ended")


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
