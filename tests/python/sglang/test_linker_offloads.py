# SPDX-License-Identifier: Apache-2.0
"""Goal: an offload is stored as a whole or not, offloads are told in order, and pages that the
daemon is known to have cost nothing.

Method: Offloads over operations that end when the test says, with a clock of the test's own.
"""
from types import SimpleNamespace

import pytest

from kvsidecar import Status
from kvsidecar.errors import Misuse
from kvsidecar.sglang.linker_offloads import KNOWN_MAX, KNOWN_NS, Known, Offloads
from kvsidecar.sglang.linker_transfers import Pages, split

KV, SWA = SimpleNamespace(name="kv"), SimpleNamespace(name="swa")


class Put:
    def __init__(self, pages):
        self.pages = pages
        self.items = None
        self.cancelled = False

    @property
    def finished(self):
        return self.items is not None

    def end(self, status=Status.OK):
        self.items = bytes((status,)) * len(self.pages.blocks)

    def result(self):
        return SimpleNamespace(_items=self.items)

    def cancel(self):
        self.cancelled = True


class Bench:
    def __init__(self):
        self.now = 1
        self.offloads = Offloads(clock=lambda: self.now)
        self.puts = []

    def begin(self, pages):
        self.puts.append(Put(pages))
        return self.puts[-1]

    def submit(self, *pages):
        self.offloads.submit(pages, self.begin)


def pages(pool, *names):
    return Pages(pool, b"".join(bytes((name,)) * 32 for name in names), 32, list(names))


@pytest.fixture
def bench():
    return Bench()


def test_offloads_are_told_in_order(bench):
    bench.submit(pages(KV, 1))
    bench.submit(pages(KV, 2))
    bench.puts[1].end()
    assert bench.offloads.completed() == 0
    bench.puts[0].end(Status.NOT_STORED)
    assert bench.offloads.completed() == 2
    assert not bench.offloads.pop()
    assert bench.offloads.completed() == 1
    assert bench.offloads.pop()
    assert bench.offloads.completed() == 0 and not bench.offloads.pop()


@pytest.mark.parametrize("status, stored", [
    (Status.OK, True), (Status.OK_PART, True), (Status.EXISTS, True), (Status.NOT_STORED, False),
    (Status.TIMEOUT, False), (Status.BUSY, False), (Status.UNAVAILABLE, False)])
def test_one_pool_that_isnt_stored_decides(bench, status, stored):
    bench.submit(pages(KV, 1), pages(SWA, 1))
    bench.puts[0].end()
    assert bench.offloads.completed() == 0
    bench.puts[1].end(status)
    assert bench.offloads.pop() == stored


def test_one_page_that_isnt_stored_decides(bench):
    bench.submit(pages(KV, 1, 2))
    bench.puts[0].items = bytes((Status.OK, Status.NOT_STORED))
    assert not bench.offloads.pop()


def test_pages_that_are_known_arent_put_again(bench):
    bench.submit(pages(KV, 1, 2))
    bench.puts[0].end()
    assert bench.offloads.pop()
    bench.submit(pages(KV, 1, 2))
    assert len(bench.puts) == 1 and bench.offloads.pop()
    bench.submit(pages(KV, 1, 2, 3))
    assert bench.puts[1].pages.blocks == [3] and split(bench.puts[1].pages) == [b"\3" * 32]


def test_a_page_of_one_pool_says_nothing_about_another(bench):
    bench.submit(pages(KV, 1))
    bench.puts[0].end()
    bench.offloads.pop()
    bench.submit(pages(SWA, 1))
    assert len(bench.puts) == 2


def test_what_wasnt_stored_isnt_known(bench):
    bench.submit(pages(KV, 1))
    bench.puts[0].end(Status.NOT_STORED)
    bench.offloads.pop()
    bench.submit(pages(KV, 1))
    assert len(bench.puts) == 2


def test_knowledge_grows_old_and_can_be_lost(bench):
    bench.offloads.known("kv").add([b"\1" * 32])
    bench.now += KNOWN_NS
    bench.submit(pages(KV, 1))
    assert len(bench.puts) == 1
    bench.puts[0].end()
    assert bench.offloads.pop()
    bench.offloads.forget()
    bench.submit(pages(KV, 1))
    assert len(bench.puts) == 2


def test_only_so_many_pages_are_known():
    known = Known(lambda: 1)
    keys = [number.to_bytes(4, "big") for number in range(KNOWN_MAX + 1)]
    known.add(keys)
    assert known.unknown(keys) == [0]


def test_an_offload_that_cant_begin_ends_in_its_turn(bench):
    bench.submit(pages(KV, 1))
    bench.offloads.submit([pages(KV, 2)], lambda pages: None)
    assert bench.offloads.completed() == 0
    bench.puts[0].end()
    assert bench.offloads.completed() == 2
    assert bench.offloads.pop() and not bench.offloads.pop()


def test_a_pool_that_cant_begin_gives_the_others_up(bench):
    def begin(pages):
        return bench.begin(pages) if pages.pool is KV else None

    bench.offloads.submit([pages(KV, 1), pages(SWA, 1)], begin)
    assert bench.puts[0].cancelled
    assert bench.offloads.completed() == 1 and not bench.offloads.pop()


def test_a_rank_that_writes_nothing_has_stored_it(bench):
    bench.submit()
    assert bench.offloads.completed() == 1 and bench.offloads.pop()


def test_giving_up_leaves_nothing_to_tell(bench):
    bench.submit(pages(KV, 1))
    assert bench.offloads.give_up_all() == 1
    assert bench.puts[0].cancelled and bench.offloads.completed() == 0


def test_a_clear_by_others_is_noticed(bench):
    bench.submit(pages(KV, 1))
    bench.puts[0].end(Status.STALE_NAMESPACE)
    assert not bench.offloads.pop() and bench.offloads.stale


def test_what_an_earlier_daemon_stored_isnt_known_of_the_next(bench):
    bench.offloads.epoch = 1
    bench.submit(pages(KV, 1))
    bench.puts[0].end()
    bench.offloads.epoch = 2  # before anybody has looked
    assert bench.offloads.pop()
    bench.submit(pages(KV, 1))
    assert len(bench.puts) == 2


def test_an_offload_whose_client_was_closed_is_told_and_given_up(bench):
    class Closed(Put):
        @property
        def finished(self):
            raise Misuse("the client is closed")

    bench.offloads.submit([pages(KV, 1)], Closed)
    assert bench.offloads.completed() == 1 and not bench.offloads.pop()
    bench.offloads.submit([pages(KV, 1)], Closed)
    bench.submit(pages(KV, 2))
    assert bench.offloads.give_up_all() == 2 and bench.puts[0].cancelled
