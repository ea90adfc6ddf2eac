# SPDX-License-Identifier: Apache-2.0
"""Goal: no call of the client waits without limit, and while one waits the interpreter is free.
(Bug reports O2-03, O2-05.)

Method: the daemon stands still. A second Python thread has to count far before it lets the daemon
go on; a call that kept the interpreter to itself would keep that thread from it and end with its
deadline instead of its answer. Nothing is timed.
"""
import threading

import pytest

import content
import kvsidecar
from engine import Engine, fields
from kvsidecar import Run, Status

STEPS = 200_000
BLOCKS = 16
BYTES = 65536
GIVEN_UP = {Status.TIMEOUT, Status.UNAVAILABLE, Status.REVOKED, Status.ABANDONED}


class Spinner:
    """Counts, then lets the daemon go on."""

    def __init__(self, daemon):
        self.daemon, self.steps = daemon, 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while self.steps < STEPS:
            self.steps += 1
        self.daemon.resume()

    def __enter__(self):
        self.daemon.pause()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()


def register_layout(engine, timeout):
    return engine.client.register_layout(1, [Run(engine.memory, 0, BYTES, BYTES)], timeout=timeout)


CALLS = {
    "put": lambda e, t: e.put(content.keys(range(4), b"new"), timeout=t).result(),
    "get": lambda e, t: e.get(content.keys(range(4)), timeout=t).result(),
    "lookup": lambda e, t: e.lookup(content.keys(range(4)), timeout=t).result(),
    "delete": lambda e, t: e.client.delete(e.space, content.keys([3]), timeout=t).result(),
    "clear": lambda e, t: e.client.clear(e.space, timeout=t).result(),
    "stat": lambda e, t: e.client.stat(timeout=t).result(),
    "why": lambda e, t: e.client.why(content.key(1), timeout=t).result(),
    "create_memory": lambda e, t: e.client.create_memory(BYTES, timeout=t),
    "register_layout": register_layout,
    "attach": lambda e, t: e.client.attach(fields(BYTES, "another"), timeout=t),
    "release": lambda e, t: e.spare.release(t),
}


@pytest.fixture
def engine(start):
    daemon = start()
    with Engine(daemon.socket, BLOCKS, BYTES) as made:
        made.daemon, made.socket = daemon, daemon.socket
        assert set(made.check_put(content.keys(range(4)))) == {Status.OK}
        made.spare = made.client.create_memory(BYTES, timeout=10)
        yield made


def status_of(outcome):
    return outcome if isinstance(outcome, Status) else outcome.status


@pytest.mark.parametrize("name", CALLS)
def test_other_threads_run_while_a_call_waits(engine, name):
    """O2-05."""
    with Spinner(engine.daemon) as spinner:
        outcome = CALLS[name](engine, 30)
    assert spinner.steps == STEPS
    assert status_of(outcome) == Status.OK, outcome


def test_other_threads_run_while_a_client_connects(engine):
    """O2-05."""
    with Spinner(engine.daemon):
        with kvsidecar.Client(engine.socket, connect_timeout=30) as client:
            assert client.connected


def test_other_threads_run_while_many_operations_are_waited_for(engine):
    """O2-05."""
    keys = content.keys(range(4))
    with Spinner(engine.daemon):
        ops = [engine.get(keys, first_block=4 * i, timeout=30) for i in range(4)]
        assert engine.client.wait_all(ops, 30)
    assert all(set(op.result().items) == {Status.OK} for op in ops)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_to_a_daemon_that_stands_still_ends_with_its_deadline(engine, name):
    """O2-03: and the late answer is nobody's: the same call works afterwards."""
    engine.daemon.pause()
    outcome = CALLS[name](engine, 0.2)
    items = set(getattr(outcome, "items", ()))
    assert status_of(outcome) in GIVEN_UP or (items and items <= GIVEN_UP), outcome
    engine.daemon.resume()
    assert engine.client.stat(timeout=20).result().ok
    if name != "release":
        again = CALLS[name](engine, 20)
        assert status_of(again) == Status.OK, again
        assert set(getattr(again, "items", ())) <= {Status.OK, Status.EXISTS, Status.MISS}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_to_a_daemon_that_is_gone_ends(engine, name):
    """O2-03: killed and not started again."""
    engine.daemon.kill()
    outcome = CALLS[name](engine, 0.2)
    items = set(getattr(outcome, "items", ()))
    assert status_of(outcome) in GIVEN_UP or (items and items <= GIVEN_UP) or name == "release", \
        outcome
