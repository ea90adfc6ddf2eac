# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever becomes of the daemon, every prompt is answered, and as it would be without one;
no wrong page is stored; and the connector is back by itself when the daemon is.

Method: SIGKILL and SIGSTOP in the middle of a copy, seen in the claim words, while an engine runs
that is short of blocks; SIGCONT after the blocks were used again; a daemon that comes late. A fresh
engine then reads everything that was stored. (Bug reports O1-12, O2-03, O2-11, O3-19.)
"""
import pytest

import accounts
import workload
from copies import AtCopy
from engine import MEBIBYTE, connector, external_hits, ids, prompt
from waiting import eventually

SLOW = dict(copy={"threads": 1, "inline_bytes": 0}, host_pool={"bytes": "256MiB"},
            store={"kind": "none", "root": None})
WIDE = dict(model="llama-wide", max_model_len=512, max_num_seqs=4)
ATTEMPTS = 12


def wait_for_sessions(daemon, asker=1):
    """Both sides of an engine have a session."""
    eventually(lambda: accounts.status(daemon)["sessions"] >= 2 + asker, "the engine is attached",
               pid=daemon.pid, seconds=30)


def check_hits_again(daemon, engine, settle, seed):
    """The connection works both ways."""
    prompts = [prompt(seed + i, 200) for i in range(4)]

    def stored():
        engine.call("reset_prefix_cache", connector=False)
        answers = ids(engine.generate(prompts, 2))
        settle(daemon)
        engine.call("reset_prefix_cache", connector=False)
        before = external_hits(engine.metrics())
        assert ids(engine.generate(prompts, 2)) == answers
        return external_hits(engine.metrics()) > before

    eventually(stored, "the engine stores and hits again")


@pytest.mark.parametrize("during", ["stores", "loads"])
def test_a_daemon_that_is_killed_and_started_again(during, engine, start_daemon, reference, settle):
    daemon = start_daemon(**SLOW)
    prompts = workload.chats(12)
    expected = ids(reference(prompts=prompts, **WIDE))
    engine.start(transfer=connector(daemon.socket), **WIDE)
    wait_for_sessions(daemon)
    for attempt in range(ATTEMPTS):
        if during == "loads":
            engine.generate(prompts, 1)
            settle(daemon, engine)
            engine.call("reset_prefix_cache", connector=False)
        with AtCopy(daemon, daemon.process.kill) as at_copy:
            engine.begin_generate(prompts)
            outputs = engine.outputs()
        assert ids(outputs) == expected
        if at_copy.seen:
            break
        engine.call("reset_prefix_cache", connector=False)
    assert at_copy.seen
    if during == "loads":
        assert engine.metrics()["vllm:kvsidecar_failed_loads"] > 0
    daemon.kill()
    daemon.killed_with_store = False
    engine.call("reset_prefix_cache", connector=False)
    assert ids(engine.generate(prompts)) == expected  # and without any daemon
    daemon.start()
    wait_for_sessions(daemon)
    check_hits_again(daemon, engine, settle, 500)
    engine.check_blocks()
    engine.start(transfer=connector(daemon.socket), **WIDE)
    assert ids(engine.generate(prompts)) == expected


@pytest.mark.parametrize("during", ["stores", "loads"])
def test_a_daemon_that_stands_still_in_a_copy(during, engine, start_daemon, reference, settle):
    """With blocks for two of four requests: they are preempted, aborted, past their deadlines, and
    their blocks are used again before the daemon goes on."""
    daemon = start_daemon(**SLOW)
    small = dict(WIDE, kv_cache_memory_bytes=10 * MEBIBYTE)
    transfer = connector(daemon.socket, store_timeout_s=0.1, load_timeout_s=0.1)
    prompts = {f"r{i}": words for i, words in enumerate(workload.chats(8))}
    expected = dict(zip(prompts, ids(reference(prompts=list(prompts.values()), max_tokens=120,
                                               **WIDE))))
    engine.start(transfer=transfer, **small)
    wait_for_sessions(daemon)
    for attempt in range(ATTEMPTS):
        if during == "loads":
            engine.generate(list(prompts.values()), 1)
            settle(daemon, engine)
            engine.call("reset_prefix_cache", connector=False)
        with AtCopy(daemon, daemon.pause) as at_copy:
            engine.add(prompts, 120)
            while not at_copy.seen and engine.step("ended", steps=1) is None:
                pass
        if at_copy.seen:
            break
        engine.take()
        engine.call("reset_prefix_cache", connector=False)
    assert at_copy.seen
    states = engine.states()
    given_up = [name for name in ("r0", "r2") if name in states]
    engine.abort(*given_up)
    engine.step("answered", steps=3000)  # but for what is being copied, and who wants its blocks
    daemon.resume()
    assert engine.step("ended") is not None
    outputs = engine.take()
    assert {name: output.ids for name, output in outputs.items() if name not in given_up} == {
        name: words for name, words in expected.items() if name not in given_up}
    assert engine.metrics()["vllm:num_preemptions"] > 0
    settle(daemon, engine)
    engine.start(transfer=transfer, **WIDE)  # reads what was stored
    assert dict(zip(prompts, ids(engine.generate(list(prompts.values()), 120)))) == expected
    assert external_hits(engine.metrics()) > 0


def test_no_step_waits_for_a_daemon_that_stands_still(engine, daemon, reference):
    prompts = workload.chats(6)
    expected = ids(reference("llama", prompts))
    engine.start("llama", connector(daemon.socket, lookup_deadline_ms=20))
    engine.generate(workload.chats(2, seed=99))
    daemon.pause()
    for _ in range(2):
        assert ids(engine.generate(prompts)) == expected
        assert engine.call("reset_prefix_cache", connector=False)
    daemon.resume()
    engine.check_blocks()


def test_a_daemon_that_comes_late(engine, make_daemon, reference, settle):
    daemon = make_daemon()
    prompts = workload.chats(4)
    expected = ids(reference("llama", prompts))
    engine.start("llama", connector(daemon.socket))
    assert ids(engine.generate(prompts)) == expected
    assert engine.call("reset_prefix_cache", connector=False)
    assert ids(engine.generate(prompts)) == expected
    daemon.start().log_has(r"\bchunk_ready\b")
    wait_for_sessions(daemon)
    check_hits_again(daemon, engine, settle, 700)
