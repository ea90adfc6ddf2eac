# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine of two ranks stores each page in two parts that count only together, loads on
both, and leaves nothing behind when a rank dies.

Method: tensor parallelism over two CPU workers against an engine of one rank; the daemon's counts
of parts and pages; SIGKILL to one worker. (Bug report O3-03.)
"""
import os
import signal

import accounts
import workload
from engine import connector, external_hits, ids
from test_outputs import restorable

TWO = dict(model="llama-heads", tensor_parallel_size=2)


def workers(daemon):
    """Pids of the sessions' processes that hold KV memory, by the daemon's own account."""
    with accounts.kvsidecar.Client(daemon.socket, name="asker") as client:
        told = client.stat(accounts.kvsidecar.Stat.SESSIONS, timeout=10).result().json()
    return [session["pid"] for session in told["sessions"]
            if session["name"].startswith("vllm worker")]


def test_two_ranks(make_engine, daemon, reference, settle):
    daemon.baseline = accounts.take_baseline(daemon)
    prompts = workload.shared_prefixes(24)
    expected = ids(reference("llama-heads", prompts))
    engine = make_engine(split=True)
    engine.start(transfer=connector(daemon.socket), **TWO)
    assert ids(engine.generate(prompts)) == expected
    counters = settle(daemon)
    assert counters["pages_completed"] > 0
    # The other part completes a page. Requests that begin alike may put one part twice before that.
    assert counters["parts_put"] >= counters["pages_completed"]

    pids = workers(daemon)
    assert len(pids) == 2
    os.kill(pids[1], signal.SIGKILL)
    engine.kill()
    accounts.check_baseline(daemon, but=("shm", "pool_bytes"))

    engine = make_engine(split=True)
    engine.start(transfer=connector(daemon.socket), **TWO)
    outputs = engine.generate(prompts)
    assert ids(outputs) == expected
    assert [output.cached for output in outputs] == [restorable(p, 32) for p in prompts]
    settle(daemon)
    engine.close()

    one = make_engine()  # of another shape: its pages are other pages
    one.start("llama-heads", connector(daemon.socket))
    assert ids(one.generate(prompts)) == expected
    assert external_hits(one.metrics()) == 0
    settle(daemon, one)


def test_half_a_page_is_none(make_engine, daemon, reference, settle):
    """What only one rank has written is never found."""
    prompts = workload.chats(6)
    expected = ids(reference("llama-heads", prompts))
    engine = make_engine(split=True)
    engine.start(transfer=connector(daemon.socket), **TWO)
    engine.call("stop_storing", rank=1)
    for _ in range(2):
        assert ids(engine.generate(prompts)) == expected
        counters = settle(daemon)
        assert counters["parts_put"] > 0
        assert counters["pages_completed"] == 0
        assert engine.call("reset_prefix_cache", connector=False)
    assert external_hits(engine.metrics()) == 0
