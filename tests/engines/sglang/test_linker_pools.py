# SPDX-License-Identifier: Apache-2.0
"""Goal: door B restores every byte of every kind of model's device pools, on one rank and on two,
and the hand-written package that the linker's other tests run on is like the real one.

Method: SGLang's real pools, pool groups and layer counter with kvsidecar.sglang.Linker and a real
daemon; two ranks as two processes with gloo; signatures of both packages side by side.
"""
import ast
import inspect
import os

import linker_worker
import pytest
from linker_worker import KINDS, Worker, has_window
from rank_processes import RankProcesses
from sglang.srt.mem_cache.hybrid_cache import linker_pool_assembler
from sglang.srt.mem_cache.unified_cache import unified_cache_linker
from waiting import eventually

from kvsidecar.sglang.linker_lives import ROUND

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "..", "..", "python", "sglang", "fake", "sglang", "srt", "mem_cache")
COUNT = 6


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("")
    return str(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_of_every_kind_returns(kind, start_daemon, model):
    daemon = start_daemon()
    worker = Worker(kind, model, socket=daemon.socket)
    try:
        worker.fill(1)
        want = worker.read(1, COUNT)
        assert worker.offload(1, COUNT)
        worker.wipe()
        assert max(worker.found(COUNT)) == COUNT
        assert worker.load(20, COUNT)
        got = worker.read(20, COUNT, state=2)
        windows = [name for name, pool in worker.linker._side.pools.items() if pool.source == "swa"]
        assert bool(windows) == has_window(kind)
        for name in windows:  # only their last pages were asked for
            assert got.pop(name) != want.pop(name)
        assert got == want
        last = worker.read(20 + COUNT - 2, 2)
        worker.fill(1)
        assert all(last[name] == worker.read(1 + COUNT - 2, 2)[name] for name in windows)
        side = worker.linker._side
        assert len(side._device._shared) == len(side._registered.regions), "nothing is staged"
    finally:
        worker.close()


def test_sglangs_own_tables_of_addresses_follow_the_memory(model):
    worker = Worker("mha", model, socket="/nowhere", connect_timeout_s=0.01, attach_timeout_s=0.01)
    try:
        pool = worker.kvcache
        assert pool.k_data_ptrs.tolist() == [buffer.data_ptr() for buffer in pool.k_buffer]
        assert pool.data_ptrs.tolist() == [buffer.data_ptr() for buffer in
                                           (*pool.k_buffer, *pool.v_buffer)]
    finally:
        worker.close()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    made = RankProcesses(tmp_path_factory.mktemp("ranks"), "linker_worker.py",
                         "sglang-linker-ranks.log")
    yield made
    made.end()


def test_a_page_is_found_when_all_ranks_have_stored_their_share(ranks, start_daemon, model):
    ranks.both("make", kind="mha", model=model, socket=start_daemon().socket)
    ranks.one(0, "fill", seed=1)
    ranks.one(1, "fill", seed=2)
    want = ranks.both("read", first=1, count=COUNT)
    assert want[0] != want[1]
    assert ranks.one(0, "offload", first=1, count=COUNT)
    assert ranks.both("lookup", count=COUNT, rid="early") == [[], []]
    assert ranks.one(1, "offload", first=1, count=COUNT)
    ranks.both("wipe")
    assert ranks.both("found", count=COUNT) == [list(range(1, COUNT + 1))] * 2
    assert ranks.both("load", first=20, count=COUNT) == [True, True]
    assert ranks.both("read", first=20, count=COUNT) == want


def test_replicated_pages_are_stored_by_one_rank_and_loaded_by_all(ranks, start_daemon, model):
    daemon = start_daemon()
    ranks.both("make", kind="mla", model=model, socket=daemon.socket)
    ranks.both("fill", seed=1)
    want = ranks.both("read", first=1, count=COUNT)
    assert ranks.one(1, "offload", first=1, count=COUNT), "the first rank stores it"
    assert ranks.one(1, "lookup", count=COUNT, rid="early") == []
    assert ranks.one(0, "offload", first=1, count=COUNT)
    ranks.both("wipe")
    assert ranks.both("found", count=COUNT) == [list(range(1, COUNT + 1))] * 2
    assert ranks.both("load", first=20, count=COUNT) == [True, True]
    assert ranks.both("read", first=20, count=COUNT) == want


def test_each_rank_stores_its_own_states_beside_latent_attention(ranks, start_daemon, model):
    ranks.both("make", kind="mla+mamba", model=model, socket=start_daemon().socket)
    ranks.one(0, "fill", seed=1)
    ranks.one(1, "fill", seed=2)
    want = ranks.both("read", first=1, count=COUNT)
    assert ranks.one(0, "offload", first=1, count=COUNT)
    assert ranks.one(0, "lookup", count=COUNT, rid="early") == []
    assert ranks.one(1, "offload", first=1, count=COUNT)
    assert ranks.both("found", count=COUNT) == [[COUNT]] * 2
    assert ranks.both("load", first=20, count=COUNT) == [True, True]
    got = ranks.both("read", first=20, count=COUNT, state=2)
    assert [one["mamba"] for one in got] == [one["mamba"] for one in want]
    assert got[0]["kv"] == got[1]["kv"] == want[0]["kv"]


def test_ranks_detach_together_each_time(ranks, start_daemon, model):
    """Also when they come back into namespaces that they have left."""
    ranks.both("make", kind="mha", model=model, socket=start_daemon().socket)
    for number in range(ROUND + 2):
        ranks.both("fill", seed=number)
        want = ranks.both("read", first=1, count=COUNT)
        eventually(lambda: ranks.both("offload", first=1, count=COUNT) == [True, True],
                   "the new namespaces are attached")
        ranks.both("wipe")
        assert ranks.both("found", count=COUNT, rid=f"after {number}") == \
            [list(range(1, COUNT + 1))] * 2
        assert ranks.both("load", first=20, count=COUNT, rid=f"after {number}") == [True, True]
        assert ranks.both("read", first=20, count=COUNT) == want
        ranks.both("reset")
        assert ranks.both("lookup", count=COUNT, rid=f"before {number}") == [[], []]


def test_ranks_without_their_daemon_answer_alike(ranks, start_daemon, model):
    daemon = start_daemon()
    ranks.both("make", kind="mha", model=model, socket=daemon.socket)
    ranks.both("fill", seed=1)
    assert ranks.both("offload", first=1, count=COUNT) == [True, True]
    daemon.kill()
    assert ranks.both("lookup", count=COUNT) == [[], []]
    assert ranks.both("load", first=20, count=COUNT) == [False, False]
    assert ranks.both("offload", first=1, count=COUNT, seed="new") == [False, False]


def test_a_rank_that_dies_leaves_whole_pages_to_the_other(ranks, start_daemon, model):
    ranks.both("make", kind="mha", model=model, socket=start_daemon().socket)
    ranks.both("fill", seed=1)
    assert ranks.both("offload", first=1, count=COUNT) == [True, True]
    want = ranks.one(0, "read", first=1, count=COUNT)
    ranks.processes[1].kill()
    ranks.processes[1].wait()
    assert ranks.one(0, "found", count=COUNT) == list(range(1, COUNT + 1))
    assert ranks.one(0, "load", first=20, count=COUNT)
    assert ranks.one(0, "read", first=20, count=COUNT) == want


# The hand-written package.


def _written(path, name):
    """{method: arguments} of a class of the hand-written package, from its source."""
    with open(os.path.join(FAKE, path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {node.name: [one.arg for one in [*node.args.args, *node.args.kwonlyargs]]
            for node in found.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("module, path, name", [
    (unified_cache_linker, "unified_cache/unified_cache_linker.py", "LayerWiseLoadCounter"),
    (unified_cache_linker, "unified_cache/unified_cache_linker.py", "UnifiedCacheLinker"),
    (linker_pool_assembler, "hybrid_cache/linker_pool_assembler.py", "DevicePoolEntry"),
    (linker_pool_assembler, "hybrid_cache/linker_pool_assembler.py", "DevicePoolGroup")])
def test_the_hand_written_types_have_the_real_ones_signatures(module, path, name):
    real = getattr(module, name)
    for method, arguments in _written(path, name).items():
        told = list(inspect.signature(getattr(real, method)).parameters)
        assert sorted(arguments) == sorted(told), method


def test_all_abstract_methods_are_written_down():
    written = _written("unified_cache/unified_cache_linker.py", "UnifiedCacheLinker")
    assert set(unified_cache_linker.UnifiedCacheLinker.__abstractmethods__) == \
        set(written) - {"record_offload_ready"}
    assert not linker_worker.Linker.__abstractmethods__


def test_the_real_counter_gives_no_error_to_a_forward():
    counter = unified_cache_linker.LayerWiseLoadCounter(2)
    index = counter.update_producer()
    counter.set_consumer(index)
    counter.complete(index, 0)
    counter.fail(index, OSError("lost"))
    counter.wait_until(0)
    counter.wait_until(1)
    assert not counter.finish(index) and counter.finish(index), "told once"
