# SPDX-License-Identifier: Apache-2.0
"""Goal: a peer that dies, stalls or talks nonsense at any step of the handshake costs only its own
connection, and is told why where it can be told.

Method: the handshake by hand. Each test ends with the baseline check, and each asks first whether
somebody else is served meanwhile.
"""
import os
import socket

import pytest

import accounts
import content
import kvsidecar
from engine import Engine
from kvsidecar import Status
from raw_peer import HELLO, Door, HungUp, RawPeer
from waiting import eventually


def served(daemon):
    """Others are served."""
    with Engine(daemon.socket, 4, 4096) as engine:
        keys = content.keys([os.getpid(), os.getpid() + 1])
        return set(engine.check_put(keys)) <= {Status.OK, Status.EXISTS} and \
            set(engine.check_get(keys)) == {Status.OK}


def leave_after_connect(path):
    Door(path).close()


def leave_after_half_hello(path):
    with Door(path) as door:
        door.send_hello(size=HELLO.size // 2)


def leave_after_hello(path):
    with Door(path) as door:
        door.send_hello()


def leave_after_welcome(path):
    with Door(path) as door:
        door.send_hello()
        assert door.receive_welcome().status == 0


def leave_after_ready(path):
    with RawPeer(path):
        pass


def leave_after_fd_message(path):
    with RawPeer(path) as peer:
        fd = os.memfd_create("left")
        peer.offer(fd)
        os.close(fd)


STEPS = [leave_after_connect, leave_after_half_hello, leave_after_hello, leave_after_welcome,
         leave_after_ready, leave_after_fd_message]


@pytest.mark.parametrize("leave", STEPS, ids=lambda step: step.__name__)
def test_a_peer_that_hangs_up(start, leave):
    daemon = start()
    for _ in range(20):
        leave(daemon.socket)
    assert served(daemon)


@pytest.mark.parametrize("leave", STEPS[2:], ids=lambda step: step.__name__)
def test_a_peer_that_is_killed(start, leave):
    """As above, but its descriptors go with its process."""
    daemon = start()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            Door.__exit__ = RawPeer.__exit__ = lambda *_: os.kill(os.getpid(), 9)
            leave(daemon.socket)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 9
    assert served(daemon)


@pytest.mark.parametrize("size", [0, 1, 8, HELLO.size - 1, HELLO.size + 1, 4096])
def test_a_hello_of_another_size_is_refused(start, size):
    daemon = start()
    with Door(daemon.socket) as door:
        if size == 0:
            door.socket.shutdown(socket.SHUT_WR)
        else:
            door.send_hello(size=size)
        try:
            status, text = door.refusal()
            assert status == Status.INVALID and "HELLO" in text, text
        except HungUp:
            assert size in (0, 4096)  # nothing was said; more than a message may have
        assert door.hung_up()
    assert served(daemon)


def test_a_hello_that_lies_about_its_size_is_refused(start):
    daemon = start()
    with Door(daemon.socket) as door:
        door.send_hello(bytes_=HELLO.size + 8)
        status, text = door.refusal()
        assert status == Status.INVALID and str(HELLO.size) in text, text
    assert served(daemon)


def test_a_wrong_magic_is_refused(start):
    daemon = start()
    with Door(daemon.socket) as door:
        door.send_hello(magic=0x47455420)
        status, text = door.refusal()
        assert status == Status.INVALID and "magic" in text, text
        assert door.hung_up()
    assert served(daemon)


@pytest.mark.parametrize("major", [0, 2, 99, 0xFFFFFFFF])
def test_an_unknown_version_is_refused_and_both_are_named(start, major):
    daemon = start()
    with Door(daemon.socket) as door:
        door.send_hello(major=major, minor=7)
        status, text = door.refusal()
        assert status == Status.UNSUPPORTED_VERSION
        assert f"{major}.7" in text and "1.0" in text, text
        assert door.hung_up()
    assert served(daemon)


def test_descriptors_with_hello_end_the_connection_and_are_not_kept(start):
    daemon = start()
    for _ in range(20):
        with Door(daemon.socket) as door:
            fd = os.memfd_create("unasked")
            door.send_hello(fds=[fd, fd, fd])
            os.close(fd)
            assert door.hung_up()
    assert served(daemon)


def test_ready_with_another_magic_ends_the_connection(start):
    daemon = start()
    with Door(daemon.socket) as door:
        door.send_hello()
        assert door.receive_welcome().status == 0
        door.send_ready(magic=1)
        assert door.hung_up()
    assert served(daemon)


@pytest.mark.parametrize("wrong", ["magic", "no_fd", "two_fds", "size", "flood"])
def test_a_wrong_fd_message_ends_the_session(start, wrong):
    daemon = start()
    with RawPeer(daemon.socket) as peer:
        fd = os.memfd_create("offered")
        message = (0x3144465F5F5F564B).to_bytes(8, "little") + bytes(8)
        if wrong == "magic":
            peer.send_fd(1, fd, magic=5)
        elif wrong == "no_fd":
            peer.send(message)
        elif wrong == "two_fds":
            peer.send(message, [fd, fd])
        elif wrong == "size":
            peer.send(message + b"x", [fd])
        else:  # more descriptors than may wait, none of them registered
            try:
                for _ in range(100):
                    peer.offer(fd)
            except (BrokenPipeError, ConnectionResetError):
                pass
        os.close(fd)
        assert peer.hung_up()
    assert served(daemon)


def test_half_open_connections_are_limited_and_time_out(start):
    """Beyond 16 of one user a connection is refused at once; those that stall are ended after 5 s,
    and nobody who is in notices."""
    daemon = start()
    with Engine(daemon.socket, 4, 4096) as engine:
        doors = [Door(daemon.socket) for _ in range(16)]
        eventually(lambda: open_sockets(daemon) >= 16 + 2, "16 connections are taken")
        with Door(daemon.socket) as refused:
            status, text = refused.refusal()
            assert status == Status.BUSY and "handshakes" in text, text
        with pytest.raises(kvsidecar.OpenFailed):
            kvsidecar.Client(daemon.socket, connect_timeout=0.2)
        keys = content.keys([1, 2])
        assert set(engine.check_put(keys)) == {Status.OK}
        assert set(engine.check_get(keys)) == {Status.OK}
        assert all(door.hung_up() for door in doors)
        for door in doors:
            door.close()
    assert served(daemon)


def open_sockets(daemon):
    return sum(count for kind, count in accounts.descriptors(daemon).items()
               if kind.startswith("socket"))
