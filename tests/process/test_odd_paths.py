# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever lies where the daemon wants to have a file of its own, or takes one away, it
serves or says which path is in its way; it follows no link, empties no file, and never crashes or
hangs. (Bug reports O3-07, O3-08, O3-09.)

Method: each of its paths made beforehand as each odd thing; the socket and the pool's files
removed, or replaced by another daemon's, while clients run.
"""
import os
import select
import socket
import stat

import pytest

import accounts
import content
import kvsidecar
from daemon import proc_text
from engine import Engine
from kvsidecar import Status
from waiting import eventually

NOBODY = 65534
VICTIM = b"not the daemon's\n"
PLACES = ["run", "run/kvsidecar.sock", "run/kvsidecard.pid", "state", "state/lock", "state/epoch",
          "state/node", "state/namespaces", "store", "chunk"]


def empty(path, _):
    open(path, "wb").close()


def one_byte(path, _):
    with open(path, "wb") as file:
        file.write(b"x")


def wrong_magic(path, _):
    with open(path, "wb") as file:
        file.write(os.urandom(4096))


def wrong_owner(path, _):
    empty(path, _)
    os.chown(path, NOBODY, NOBODY)


def folder(path, _):
    os.mkdir(path)


def link(path, victim):
    os.symlink(victim, path)


def link_to_nowhere(path, victim):
    os.symlink(victim + ".not-there", path)


def pipe(path, _):
    os.mkfifo(path)


THINGS = [empty, one_byte, wrong_magic, wrong_owner, folder, link, link_to_nowhere, pipe]


def put_in_the_way(daemon, place, thing):
    """Makes the thing; its path and the victim that a link leads to."""
    path = daemon.path(place)
    if place == "chunk":
        path = f"/dev/shm/kvsidecar.{daemon.pool}.0"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    victim = daemon.path("victim")
    with open(victim, "wb") as file:
        file.write(VICTIM)
    if thing is wrong_owner and os.getuid() != 0:
        pytest.skip("giving a file to another user takes root")
    thing(path, victim)
    return path, victim


def serves(daemon):
    with Engine(daemon.socket) as engine:
        keys = content.keys(range(8))
        statuses = set(engine.check_put(keys, timeout=10))
        return statuses <= {Status.OK, Status.EXISTS} and \
            set(engine.check_get(keys, timeout=10)) == {Status.OK}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_what_lies_in_the_way_is_refused_by_name_or_made_anew(make_daemon, thing, place):
    daemon = make_daemon()
    path, victim = put_in_the_way(daemon, place, thing)
    try:
        daemon.spawn(make_store=place != "store")
        if daemon.ready_or_ended():
            told = eventually(lambda: path in daemon.log() and "chunk_" in daemon.log() or
                              place != "chunk" and serves(daemon), "it serves or tells why not",
                              pid=daemon.pid)
            assert told
            if "chunk_ready" in daemon.log():
                assert eventually(lambda: serves(daemon), "it serves", pid=daemon.pid)
            assert daemon.terminate() == 0, daemon.log()
        else:
            assert daemon.process.returncode in (1, 2), daemon.log()
            assert path in daemon.log(), daemon.log()
            assert not daemon.shm_files() or place == "chunk"
        with open(victim, "rb") as file:
            assert file.read() == VICTIM
        assert not os.path.exists(victim + ".not-there")
    finally:
        if place == "chunk" and os.path.isdir(path):
            os.rmdir(path)


def test_a_chunk_of_the_right_size_and_wrong_bytes_is_taken_over_and_works(start, make_daemon):
    store = {"kind": "none", "root": ""}
    first = make_daemon(store=store)
    size = 32 << 20
    path = f"/dev/shm/kvsidecar.{first.pool}.0"
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(os.urandom(1 << 20) * (size >> 20))
    first.start()
    first.baseline = accounts.take_baseline(first)
    keys = content.keys(range(900))  # more than the other chunk holds
    with Engine(first.socket, 900) as engine:
        assert engine.put(keys, timeout=10).result().succeeded > 0
        statuses = engine.check_get(keys, timeout=10)
        assert Status.OK in statuses and set(statuses) <= {Status.OK, Status.MISS}


def test_a_socket_that_somebody_else_bound_meanwhile_is_left_alone(start):
    daemon = start()
    os.unlink(daemon.socket)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(daemon.socket)
        other.listen()
        inode = os.stat(daemon.socket).st_ino
        assert daemon.terminate() == 0
        assert os.stat(daemon.socket).st_ino == inode
        assert stat.S_ISSOCK(os.stat(daemon.socket).st_mode)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(daemon.socket)
            assert select.select([other], [], [], 10)[0]
    os.unlink(daemon.socket)


def test_names_that_vanish_while_clients_run_cost_them_nothing(start):
    daemon = start()
    engines = [Engine(daemon.socket) for _ in range(4)]
    keys = content.keys(range(40))
    assert engines[0].put(keys, timeout=10).result().succeeded == 40
    for path in daemon.shm_files() + [daemon.socket]:
        os.unlink(path)
    for number, engine in enumerate(engines):
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
        own = content.keys(range(40), b"engine%d" % number)
        assert set(engine.check_put(own, timeout=10)) == {Status.OK}
        assert set(engine.check_get(own, timeout=10)) == {Status.OK}
    with pytest.raises(kvsidecar.OpenFailed, match=daemon.socket) as refused:
        kvsidecar.Client(daemon.socket, connect_timeout=0.1)
    assert refused.value.status == Status.UNAVAILABLE
    eventually(lambda: daemon.http("/readyz") == (503, "the socket's path is gone: restart "
                                                       "kvsidecard\n"), "it says so")
    daemon.log_has("socket_gone")
    for engine in engines:
        engine.close()
    assert daemon.terminate() == 0
    daemon.start()
    daemon.baseline = accounts.take_baseline(daemon)
    assert serves(daemon) and proc_text(daemon.pid, "status")
