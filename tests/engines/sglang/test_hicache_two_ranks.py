# SPDX-License-Identifier: Apache-2.0
"""Goal: two ranks of tensor parallelism with door A come to the same answers and wait for nobody,
whichever part is missing, whichever rank or the daemon dies.

Method: SGLang's real controllers in two processes with gloo, the reductions its own; each rank's
bytes compared with what it has stored. Whole engines of two ranks are in test_hicache_engine.py.
"""
import pytest
from hicache_bed import extra
from rank_processes import RankProcesses

PAGES = 5
TOKENS = PAGES * 64


class Ranks(RankProcesses):
    def __init__(self, folder):
        super().__init__(folder, "hicache_worker.py", "sglang-hicache-ranks.log")

    def make(self, daemon, *kinds, **more):
        more = {"get_timeout_s": 1, "set_timeout_s": 1, "revision": "r1", **more}
        self.both("make", kinds=kinds or ["mha"], extra=extra(daemon, **more))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    found = Ranks(tmp_path_factory.mktemp("ranks"))
    yield found
    found.end()


@pytest.mark.parametrize("kinds", [["mha"], ["mla", "mamba"], ["mha", "swa"]], ids="+".join)
def test_what_both_have_stored_both_get_back(ranks, start_daemon, kinds):
    ranks.make(start_daemon(), *kinds)
    want = ranks.both("backup", pages=PAGES)
    ranks.both("wipe")
    got = ranks.both("prefetch", pages=PAGES)
    assert [one[:2] for one in got] == [[TOKENS, TOKENS]] * 2
    if kinds[0] == "mla":  # KV of rank 0 on both
        want[1]["kv"] = want[0]["kv"]
    assert [one[2] for one in got] == want


@pytest.mark.parametrize("rank", [0, 1])
def test_what_one_rank_has_stored_alone_neither_gets(ranks, start_daemon, rank):
    ranks.make(start_daemon())
    ranks.one(rank, "backup", pages=PAGES)
    assert ranks.both("query", pages=PAGES) == [0, 0]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_misses_what_it_has_found_takes_the_other_along(ranks, start_daemon, rank):
    ranks.make(start_daemon())
    ranks.both("backup", pages=PAGES)
    assert ranks.both("query", pages=PAGES) == [TOKENS, TOKENS]
    ranks.one(rank, "end_session")
    assert ranks.both("prefetch_found") == [0, 0]
    assert ranks.both("query", pages=PAGES) == [0, 0]


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_daemon_that_goes_between_query_and_read_leaves_both_with_the_same(ranks, start_daemon,
                                                                            fault):
    daemon = start_daemon()
    ranks.make(daemon)
    ranks.both("backup", pages=PAGES)
    assert ranks.both("query", pages=PAGES) == [TOKENS, TOKENS]
    getattr(daemon, fault)()
    assert ranks.both("prefetch_found") == [0, 0]
    assert ranks.both("query", pages=PAGES) == [0, 0]
    if fault == "pause":
        daemon.resume()


def test_a_rank_that_dies_leaves_the_other_its_backend(ranks, start_daemon):
    """The last of these tests: SGLang ends an engine that has lost a rank."""
    ranks.make(start_daemon())
    ranks.both("backup", pages=PAGES)
    ranks.processes[1].kill()
    ranks.processes[1].wait()
    assert ranks.one(0, "exists", pages=PAGES) == PAGES
    ranks.one(0, "end_session")
    assert ranks.one(0, "exists", pages=PAGES) == 0
