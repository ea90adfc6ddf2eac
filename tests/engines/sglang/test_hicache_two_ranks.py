# SPDX-License-Identifier: Apache-2.0
"""Goal: two ranks of tensor parallelism with door A come to the same answers and wait for nobody,
whichever part is missing, whichever rank or the daemon dies.

Method: SGLang's real controllers in two processes with gloo, the reductions its own; each rank's
bytes compared with what it has stored. Whole engines of two ranks are in test_hicache_engine.py.
"""
import json
import os
import subprocess
import sys

import pytest
from daemon import die_with_parent
from hicache_bed import extra

HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = 5
TOKENS = PAGES * 64


class Ranks:
    """Two ranks, told the same or one alone."""

    def __init__(self, folder):
        with open(os.path.join(os.environ["KVSIDECAR_LOGS"], "sglang-hicache-ranks.log"),
                  "ab") as log:
            self.processes = [subprocess.Popen(
                [sys.executable, os.path.join(HERE, "hicache_worker.py"), str(rank), "2",
                 str(folder / "store")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, preexec_fn=die_with_parent) for rank in range(2)]

    def begin(self, rank, name, **arguments):
        wire = self.processes[rank].stdin
        wire.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        wire.flush()

    def answer(self, rank):
        while True:
            line = self.processes[rank].stdout.readline()
            assert line, f"rank {rank} has ended"
            if line.startswith('{"value"'):
                return json.loads(line)["value"]

    def one(self, rank, name, **arguments):
        self.begin(rank, name, **arguments)
        return self.answer(rank)

    def both(self, name, **arguments):
        for rank in range(2):
            self.begin(rank, name, **arguments)
        return [self.answer(rank) for rank in range(2)]

    def make(self, daemon, *kinds, **more):
        more = {"get_timeout_s": 1, "set_timeout_s": 1, "revision": "r1", **more}
        self.both("make", kinds=kinds or ["mha"], extra=extra(daemon, **more))

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.kill()
            process.wait()


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
