# SPDX-License-Identifier: Apache-2.0
"""Goal: a layer is told as done when all its bytes are in place and not before, every layer is
resolved by the batch's deadline, and a batch ends only when nothing can be written any more.

Method: Loads over operations that do what the test says, with a clock of the test's own; the thread
that follows batches is the test.
"""
import sys
from types import SimpleNamespace

import linker_scene  # noqa: F401 (finds the fake package)
import pytest
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import LayerWiseLoadCounter

from kvsidecar import Status
from kvsidecar.errors import Misuse
from kvsidecar.sglang.linker_loads import Loads
from kvsidecar.sglang.linker_transfers import Pages

LAYERS = 3
ALL = sys.maxsize
SECOND = 10**9


class Get:
    """A get in flight."""

    def __init__(self, pages):
        self.pages = pages
        self.progress = 0
        self.items = None
        self.cancelled = 0

    @property
    def finished(self):
        return self.items is not None

    def end(self, *bad):
        """With that status for so many pages, OK for the others."""
        count = len(self.pages.blocks)
        self.items = bytes(bad) + bytes((Status.OK,)) * (count - len(bad))
        self.progress = 0 if bad else ALL

    def result(self):
        assert self.finished
        return SimpleNamespace(ok=True, status=Status.OK, text="", _items=self.items,
                               succeeded=self.items.count(Status.OK))

    def cancel(self):
        self.cancelled += 1


class Bench:
    """kv has two runs in each layer, swa one in the first and the last."""

    def __init__(self):
        self.now = SECOND
        self.counter = LayerWiseLoadCounter(LAYERS)
        self.loads = Loads(self.counter, clock=lambda: self.now)
        self.kv = SimpleNamespace(name="kv", layer_ends=(2, 4, 6))
        self.swa = SimpleNamespace(name="swa", layer_ends=(1, 1, 2))
        self.gets = {}

    def pages(self, pool, *blocks):
        return Pages(pool, b"k" * 32 * len(blocks), 32, list(blocks))

    def begin(self, pages):
        get = self.gets[pages.pool.name] = Get(pages)
        return get

    def start(self, *pages, timeout_s=1.0):
        self.loads.queue("r", list(pages), (7,))
        return self.loads.start(self.begin, timeout_s)

    def finish(self, index):
        """The one batch that ended."""
        batch, = self.loads.finish(index)
        return batch

    def layers(self, index=0):
        """What has been told about each: True, False, or None for nothing yet."""
        return [future.exception() is None if future.done() else None
                for future in self.counter.futures[index]]


@pytest.fixture
def bench():
    return Bench()


def test_layers_are_told_one_by_one(bench):
    index = bench.start(bench.pages(bench.kv, 1, 2))
    seen = []
    for progress in (0, 1, 2, 3, 4, 6):
        bench.gets["kv"].progress = progress
        bench.loads.step()
        seen.append(bench.layers().count(True))
    assert seen == [0, 0, 1, 1, 2, 3]
    bench.gets["kv"].end()
    bench.loads.step()
    assert bench.finish(index).whole


def test_a_layer_needs_all_pools_that_have_runs_in_it(bench):
    bench.start(bench.pages(bench.kv, 1), bench.pages(bench.swa, 2))
    bench.gets["kv"].progress = 6
    bench.loads.step()
    assert bench.layers() == [None] * 3
    bench.gets["swa"].progress = 1
    bench.loads.step()
    assert bench.layers() == [True, True, None], "the second layer has none in swa"


def test_progress_of_everything_isnt_yet_an_end(bench):
    index = bench.start(bench.pages(bench.kv, 1))
    bench.gets["kv"].progress = 6
    assert bench.loads.step() == (True, True)
    assert bench.layers() == [True] * 3 and not bench.loads._batches[index].ended.is_set()
    bench.gets["kv"].end()
    assert bench.loads.step() == (False, True)
    assert bench.finish(index).whole


def test_an_answer_is_news_of_all_layers(bench):
    index = bench.start(bench.pages(bench.kv, 1))
    bench.gets["kv"].end()
    bench.loads.step()
    batch = bench.finish(index)
    assert batch.whole and batch.leases == [7]


def test_a_page_that_is_missing_fails_what_is_left(bench):
    index = bench.start(bench.pages(bench.kv, 1, 2))
    bench.gets["kv"].progress = 2
    bench.loads.step()
    bench.gets["kv"].end(Status.MISS)
    bench.loads.step()
    assert bench.layers() == [True, False, False]
    batch = bench.finish(index)
    assert not batch.whole and "1 of 2 pages MISS" in batch.failure


def test_a_failure_of_one_pool_gives_the_others_up_and_waits_for_them(bench):
    index = bench.start(bench.pages(bench.kv, 1), bench.pages(bench.swa, 2))
    bench.gets["swa"].end(Status.CORRUPT)
    bench.loads.step()
    bench.loads.step()
    assert bench.layers() == [False] * 3
    assert bench.gets["kv"].cancelled == 1
    assert not bench.loads._batches[index].ended.is_set(), "kv may still be written"
    bench.gets["kv"].end()
    bench.loads.step()
    assert not bench.finish(index).whole


def test_all_layers_are_resolved_at_the_deadline_and_the_batch_only_when_it_is_at_rest(bench):
    index = bench.start(bench.pages(bench.kv, 1))
    bench.gets["kv"].progress = 2
    bench.now += SECOND - 1
    bench.loads.step()
    assert bench.layers() == [True, None, None]
    bench.now += 1
    bench.loads.step()
    assert bench.layers() == [True, False, False] and bench.gets["kv"].cancelled == 1
    batch = bench.loads._batches[index]
    assert not batch.ended.is_set()
    bench.gets["kv"].end()  # whole, but too late for the forward
    bench.loads.step()
    assert not bench.finish(index).whole


def test_finish_waits_for_the_thread(bench):
    index = bench.start(bench.pages(bench.kv, 1))
    finished = linker_scene.in_thread(lambda: bench.finish(index))
    bench.loads.step()
    assert finished.running()
    bench.gets["kv"].end()
    bench.loads.step()
    assert finished().whole


def test_pages_of_one_pool_are_one_operation(bench):
    bench.loads.queue("a", [bench.pages(bench.kv, 1, 2)], (1,))
    bench.loads.queue("b", [bench.pages(bench.kv, 5)], (2,))
    index = bench.loads.start(bench.begin, 1.0)
    assert bench.gets["kv"].pages.blocks == [1, 2, 5]
    assert len(bench.gets["kv"].pages.keys) == 3 * 32
    bench.gets["kv"].end()
    bench.loads.step()
    assert bench.finish(index).leases == [1, 2]


def test_nothing_queued_starts_nothing(bench):
    assert bench.loads.start(bench.begin, 1.0) == -1
    assert bench.loads.finish(-1) == []
    assert bench.counter.producer_index == -1


def test_what_is_cancelled_isnt_started(bench):
    bench.loads.queue("r", [bench.pages(bench.kv, 1)], (7,))
    assert bench.loads.cancel("r").leases == (7,)
    assert bench.loads.cancel("r") is None
    assert bench.loads.start(bench.begin, 1.0) == -1


@pytest.mark.parametrize("begin", [lambda pages: None, lambda pages: 1 / 0])
def test_a_load_that_cant_begin_fails_at_once(bench, begin):
    bench.loads.queue("r", [bench.pages(bench.kv, 1)], (7,))
    index = bench.loads.start(begin, 1.0)
    assert bench.loads.step() == (False, True)
    batch = bench.finish(index)
    assert not batch.whole and batch.leases == [7]


def test_an_operation_that_raises_ends_its_batch_alone(bench):
    first = bench.start(bench.pages(bench.kv, 1))
    broken = bench.gets["kv"]
    second = bench.start(bench.pages(bench.kv, 2))
    broken.result = lambda: 1 / 0
    broken.end()
    bench.gets["kv"].end()
    bench.loads.step()
    assert not bench.finish(first).whole
    assert bench.finish(second).whole


def test_quiescing_gives_everything_up_and_waits(bench):
    bench.loads.queue("early", [bench.pages(bench.kv, 1)], (1,))
    bench.loads.start(bench.begin, 1.0)
    bench.loads.queue("late", [bench.pages(bench.kv, 2)], (2,))
    get = bench.gets["kv"]
    quiesced = linker_scene.in_thread(bench.loads.quiesce)
    linker_scene.wait_until(lambda: bench.loads.step() and get.cancelled)
    assert quiesced.running()
    get.end(Status.REVOKED)
    bench.loads.step()
    assert sorted(lease for batch in quiesced() for lease in batch.leases) == [1, 2]
    assert bench.loads.start(bench.begin, 1.0) == -1


# What must never be taken for a load that has landed.


def test_a_start_that_fails_is_told_as_a_failed_load(bench):
    bench.loads.queue("r", [bench.pages(bench.kv, 1)], (7,))
    bench.counter.update_producer = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        bench.start(bench.pages(bench.kv, 2))
    assert not bench.finish(-1).whole, "SGLang hears -1, and its forward waited for nothing"
    assert bench.loads.finish(-1) == [], "once"


def test_a_batch_whose_index_is_forgotten_is_waited_for_by_the_next_finish(bench):
    bench.start(bench.pages(bench.kv, 1))
    early = bench.gets["kv"]
    second = bench.start(bench.pages(bench.kv, 2))
    bench.gets["kv"].end()
    finished = linker_scene.in_thread(lambda: bench.loads.finish(second))
    bench.loads.step()
    assert finished.running(), "the earlier one may still be written"
    early.end(Status.MISS)
    bench.loads.step()
    assert [batch.whole for batch in finished()] == [False, True]


def test_an_index_that_was_never_given_stands_for_all(bench):
    bench.start(bench.pages(bench.kv, 1))
    finished = linker_scene.in_thread(lambda: bench.loads.finish(-1))
    bench.loads.step()
    assert finished.running()
    bench.gets["kv"].end()
    bench.loads.step()
    assert [batch.whole for batch in finished()] == [True]


def test_a_batch_that_cant_be_looked_at_isnt_at_rest_before_its_operations_are(bench):
    index = bench.start(bench.pages(bench.kv, 1), bench.pages(bench.swa, 2))
    bench.gets["swa"].result = lambda: 1 / 0
    bench.gets["swa"].end()
    bench.loads.step()
    assert bench.layers() == [False] * 3 and bench.gets["kv"].cancelled
    assert not bench.loads._batches[index].ended.is_set(), "kv may still be written"
    bench.gets["kv"].end()
    bench.loads.step()
    assert not bench.finish(index).whole


def test_a_client_that_was_closed_writes_nothing_any_more(bench):
    class Closed(Get):
        @property
        def finished(self):
            raise Misuse("the client is closed")

    bench.loads.queue("r", [bench.pages(bench.kv, 1)], (7,))
    index = bench.loads.start(Closed, 1.0)
    assert bench.loads.step() == (False, True)
    assert not bench.finish(index).whole


@pytest.mark.parametrize("status, doubtful", [
    (Status.MISS, []), (Status.UNAVAILABLE, []), (Status.CORRUPT, [b"a" * 32]),
    (Status.MEMORY_FAULT, [b"a" * 32])])
def test_only_pages_that_a_lookup_would_offer_again_are_doubtful(bench, status, doubtful):
    index = bench.start(Pages(bench.kv, b"a" * 32 + b"b" * 32, 32, [1, 2]))
    bench.gets["kv"].end(status)
    bench.loads.step()
    assert bench.finish(index).doubtful_keys == doubtful


def test_all_pages_of_a_batch_that_came_too_late_are_doubtful(bench):
    index = bench.start(bench.pages(bench.kv, 1, 2))
    bench.now += SECOND
    bench.loads.step()
    bench.gets["kv"].end()
    bench.loads.step()
    assert len(bench.finish(index).doubtful_keys) == 2
