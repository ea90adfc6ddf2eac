# SPDX-License-Identifier: Apache-2.0
"""Goal: a client shares open files with the daemon, and whatever it does to those, or sends of its
own, the daemon waits for nobody.

Method: flags and counters are the open file's and not the descriptor's, so the test sets them as
the daemon would not want them; sockets that take long to close lie unread when their sender is
thrown out. A witness is served meanwhile.
"""
import fcntl
import os
import socket
import struct

import pytest

import content
from engine import Engine
from kvsidecar import Status
from raw_peer import NOOP, RawPeer

WITNESS_S = 5.0


@pytest.fixture
def daemon(start):
    return start()


def served(witness, turn):
    keys = content.keys(range(4), b"witness%d" % turn)
    assert set(witness.check_put(keys, timeout=WITNESS_S)) == {Status.OK}
    assert set(witness.check_get(keys, timeout=WITNESS_S)) == {Status.OK}


def make_blocking_and_full(fd):
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    try:
        os.write(fd, struct.pack("<Q", 2**64 - 2))
        return True
    except OSError:
        return False  # this one can't be filled


def test_full_and_blocking_descriptors_hold_nobody(daemon):
    with Engine(daemon.socket) as witness, RawPeer(daemon.socket) as peer:
        if make_blocking_and_full(peer.kick):
            served(witness, 0)
            os.read(peer.kick, 8)
        make_blocking_and_full(peer.notify)
        request = peer.send_record(NOOP, b"")
        served(witness, 1)
        assert peer.answer().request == request


def never_read():
    """A connection whose last close waits for a reader that doesn't come, and what it needs."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    reader, _ = listener.accept()
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return sender, [listener, reader]


@pytest.mark.parametrize("bad", [b"bad", b""], ids=["a bad message", "an empty message"])
def test_descriptors_behind_a_message_that_ends_the_session_hold_nobody(daemon, bad):
    with Engine(daemon.socket) as witness, RawPeer(daemon.socket) as peer:
        sender, others = never_read()
        daemon.pause()  # so that all of it is there when the first is read
        peer.send(bad)
        peer.send_fd(1, sender.fileno())
        sender.close()
        daemon.resume()
        assert peer.hung_up()
        served(witness, 0)
        for other in others:
            other.close()
