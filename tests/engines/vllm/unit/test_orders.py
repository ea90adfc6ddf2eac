# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever vLLM counts on is ordered, so that no request waits for ever for a load that
nobody makes; and nothing is promised that the workers can't load.

Method: the scheduler's side alone, told of blocks for tokens that it has promised or has not.
"""
from types import SimpleNamespace

from kvsidecar.vllm.worker import WorkerSide
from rig import PAGE
from scene import daemon, filled, forget, make_rig, prompt, seed, settle  # noqa: F401
from waiting import eventually


def given(*blocks):
    return SimpleNamespace(get_block_ids=lambda: tuple(list(ids) for ids in blocks))


def test_tokens_that_were_never_promised_are_ordered_too(make_rig):
    rig = make_rig()
    side, request = rig.connector._scheduler, rig.request("r", prompt(1, 4 * PAGE))
    eventually(lambda: side.matched(request, PAGE) == (0, False), "nothing is promised")
    side.allocated(request, given([4, 5, 6, 7]), 2 * PAGE)
    load, = side._loads
    assert (load.request_id, load.leases) == ("r", ())
    assert [list(pages.blocks) for pages in load.pages] == [[5, 6]]
    rig.workers[0].connector._worker._loads.start(side._loads, (None, 0))
    ended = []
    while not ended:
        ended = rig.workers[0].connector._worker.results(set())[0]
    assert ended == {"r"}
    assert rig.workers[0].connector._worker.bad_blocks() == {5, 6}


def test_nothing_is_ordered_without_tokens(make_rig):
    rig = make_rig()
    side, request = rig.connector._scheduler, rig.request("r", prompt(1, 4 * PAGE))
    side.allocated(request, given([4, 5, 6, 7]), 0)
    assert not side._loads


def test_tokens_without_keys_are_a_load_that_fails(make_rig):
    rig = make_rig()
    side, request = rig.connector._scheduler, rig.request("r", prompt(1, 2 * PAGE))
    side.allocated(request, given([4, 5]), 2 * PAGE)
    load, = side._loads
    assert [list(pages.blocks) for pages in load.pages] == [[4, 5]]


def test_workers_whose_memory_was_refused_are_sent_nothing(make_rig, filled, monkeypatch):
    prompts = filled([prompt(i, 150) for i in range(3)])
    monkeypatch.setattr(WorkerSide, "_register_layouts", lambda *_: False)
    rig = make_rig()
    rig.generate(prompts, name="first")
    hits = rig.hits
    assert rig.scheduler.reset_prefix_cache()
    rig.generate(prompts, name="second")
    assert rig.hits == hits
    rig.check_empty()
