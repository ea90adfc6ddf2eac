# SPDX-License-Identifier: Apache-2.0
"""Goal: an engine that dies in the middle of loads and stores leaves nothing behind in the daemon,
and the next one starts at once and hits.

Method: SIGKILL while the daemon copies for it, seen in the claim words; the daemon's account before
the first engine and after. (Bug report O3-03.)
"""
import pytest

import accounts
import workload
from copies import AtCopy
from engine import connector, external_hits, ids
from test_daemon_loss import ATTEMPTS, SLOW, WIDE, wait_for_sessions


@pytest.mark.parametrize("split", [False, True], ids=["one-process", "processes-of-their-own"])
def test_an_engine_killed_in_a_copy_leaves_nothing(split, make_engine, start_daemon, reference,
                                                   settle):
    daemon = start_daemon(**SLOW)
    daemon.baseline = accounts.take_baseline(daemon)
    prompts = workload.chats(10)
    expected = ids(reference(prompts=prompts, **WIDE))
    engine = make_engine(split=split)
    engine.start(transfer=connector(daemon.socket), **WIDE)
    wait_for_sessions(daemon)
    assert ids(engine.generate(prompts)) == expected
    settle(daemon)
    for attempt in range(ATTEMPTS):  # loads, and stores of what isn't there yet
        engine.call("reset_prefix_cache", connector=False)
        with AtCopy(daemon, engine.kill) as at_copy:
            engine.begin_generate(prompts + workload.chats(6, seed=40 + attempt))
            engine.wait_for_answer()
        if at_copy.seen:
            break
        engine.outputs()
    assert at_copy.seen
    accounts.check_baseline(daemon, but=("shm", "pool_bytes"))

    engine = make_engine()
    engine.start(transfer=connector(daemon.socket), **WIDE)
    assert ids(engine.generate(prompts)) == expected
    assert external_hits(engine.metrics()) > 0
    settle(daemon, engine)
