# SPDX-License-Identifier: Apache-2.0
"""Goal: a client that stands still, never reads, or asks without end costs nobody else anything,
and one that merely stands still is still there when it goes on. (Bug reports O3-01, O3-06, O2-04.)

Method: SIGSTOP of client processes in the middle of their work; clients by hand that fill their
rings. A witness is served within a deadline of his own all the while.
"""
import os
import signal

import accounts
import content
import kvsidecar
from engine import Engine
from engines import EngineProcess
from kvsidecar import Stat, Status
from raw_engine import RawEngine
from raw_peer import GET
from waiting import eventually

WITNESS_S = 2.0


def witness_is_served(witness, turn):
    keys = content.keys(range(16), b"witness%d" % turn)
    assert set(witness.check_put(keys, timeout=WITNESS_S)) == {Status.OK}
    assert witness.lookup(keys, timeout=WITNESS_S).result().longest == 16
    assert set(witness.check_get(keys, timeout=WITNESS_S)) == {Status.OK}


def sessions(daemon):
    with kvsidecar.Client(daemon.socket, name="asker") as client:
        return {one["pid"]: one for one in client.stat(Stat.SESSIONS).result().json()["sessions"]}


def test_a_stopped_client_disturbs_nobody_and_is_not_reaped(start):
    daemon = start()
    stopped = EngineProcess(daemon.socket).wait_ready()
    assert set(stopped.ask("put", 0, 32, "stopped")) == {Status.OK}
    stopped.begin("work", 1, 100)
    stopped.progress(5)
    stopped.pause()
    session = sessions(daemon)[stopped.pid]["session"]
    with Engine(daemon.socket) as witness:
        for turn in range(20):
            witness_is_served(witness, turn)
    assert sessions(daemon)[stopped.pid]["session"] == session
    stopped.resume()
    stopped.progress(stopped.drop_lines())
    assert stopped.ask("connects")["wrong"] == 0  # the report of its work comes first
    assert stopped.answer() == 1  # it has never lost its connection
    statuses, wrong = stopped.ask("get", 0, 32, "stopped")
    assert wrong == 0 and set(statuses) <= {Status.OK, Status.MISS}
    assert stopped.end() == 0


def test_a_stopped_client_that_is_killed_leaves_nothing(start):
    daemon = start()
    for turn in range(5):
        stopped = EngineProcess(daemon.socket).wait_ready()
        stopped.begin("work", turn, 100)
        stopped.progress(1)
        stopped.pause()
        stopped.kill()
    eventually(lambda: accounts.status(daemon)["sessions"] == 1, "their sessions are gone",
               pid=daemon.pid)


def test_leases_of_a_stopped_client_end_at_their_time(start):
    daemon = start()
    keys = content.keys(range(8))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys)) == {Status.OK}
        assert engine.lookup(keys, lease=0.2).result().lease
        assert accounts.status(daemon)["leases"]["pages"] == 8
        eventually(lambda: accounts.status(daemon)["leases"]["count"] == 0, "the lease has ended",
                   pid=daemon.pid)
        assert set(engine.check_get(keys)) == {Status.OK}


def test_clients_that_never_read_their_answers_disturb_nobody(start):
    daemon = start()
    lazy = [RawEngine(daemon.socket) for _ in range(8)]
    with Engine(daemon.socket) as witness:
        for turn in range(10):
            for peer in lazy:
                for i in range(12):
                    peer.begin(GET, [content.key(i)], first=i)
            witness_is_served(witness, turn)
    for peer in lazy:
        peer.close()


def test_a_client_that_dies_with_unread_answers_leaves_nothing(start):
    daemon = start()
    for _ in range(10):
        with RawEngine(daemon.socket) as peer:
            for i in range(20):
                peer.begin(GET, [content.key(i)], first=i)
    with Engine(daemon.socket) as witness:
        witness_is_served(witness, 0)


def test_a_client_that_floods_gets_busy_or_answers_and_the_witness_his(start):
    """More operations than may be open, without a pause."""
    daemon = start()
    keys = content.keys(range(64))
    with Engine(daemon.socket) as flooding, Engine(daemon.socket) as witness:
        assert flooding.put(keys, timeout=10).result().succeeded == 64
        for turn in range(5):
            ops = [flooding.client.get(flooding.space, keys, flooding.layout, range(64), timeout=10)
                   for _ in range(100)]
            ops += [flooding.lookup(keys, timeout=10) for _ in range(400)]
            witness_is_served(witness, turn)
            statuses = {Status(int(op.result().status)) for op in ops}
            assert statuses <= {Status.OK, Status.BUSY} and Status.OK in statuses
        assert all(flooding.is_page(i, key) for i, key in enumerate(keys))


def test_a_socket_that_a_grandchild_holds_does_not_keep_a_dead_session(start):
    """The pidfd decides who is dead: a child that inherited everything lives on."""
    daemon = start()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        peer = RawEngine(daemon.socket)
        os.set_inheritable(peer.socket.fileno(), True)
        grandchild = os.fork()
        if grandchild == 0:
            signal.pause()
        os.write(write, grandchild.to_bytes(4, "little"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    grandchild = int.from_bytes(os.read(read, 4), "little")
    os.close(read)
    os.waitpid(child, 0)
    try:
        eventually(lambda: child not in sessions(daemon), "the dead client's session is gone",
                   pid=daemon.pid)
        os.kill(grandchild, 0)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_child_of_fork_cannot_use_its_parents_session(start):
    daemon = start()
    with Engine(daemon.socket) as engine:
        keys = content.keys(range(4))
        assert set(engine.check_put(keys)) == {Status.OK}
        child = os.fork()
        if child == 0:
            dead = engine.client.lookup(keys, engine.space).result().status == Status.UNAVAILABLE
            os._exit(0 if dead else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert set(engine.check_get(keys)) == {Status.OK}


