# SPDX-License-Identifier: Apache-2.0
"""Goal: a client takes nothing that it doesn't give back, however it was opened and closed, and
never stops its engine.

Method: the six resource tests of vLLM's HF3FS client and its defect 10, put to the Python client
that the connector stands on; what a process holds is counted.
"""
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

import kvsidecar
from kvsidecar import OpenFailed, Status
from scene import Engine
from waiting import eventually


def held():
    """What this process has open and mapped for clients."""
    files = []
    for name in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    tasks = set(map(int, os.listdir("/proc/self/task")))
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = [line.split()[-1] for line in file if "memfd:" in line]
    # A log line from the library's own thread makes Python keep a name for it: no thread.
    threads = [one for one in threading.enumerate() if one.is_alive() and one.native_id in tasks]
    return sorted(files), sorted(mapped), len(threads)


def test_closing_again_and_again_gives_everything_back_once(daemon):
    before = held()
    client = kvsidecar.Client(daemon.socket)
    engine = Engine(client, 4)
    assert engine.put().result().succeeded == 4
    assert held() != before
    assert client.close() == Status.OK
    sentinel = os.open("/dev/null", os.O_RDONLY)  # takes a number that the client had
    assert client.close() == client.close() == Status.OK
    os.fstat(sentinel)  # and a second close must not close it
    os.close(sentinel)
    del engine
    assert held() == before


def test_what_is_asked_of_a_closed_client_is_misuse_and_no_crash(daemon):
    client = kvsidecar.Client(daemon.socket)
    engine = Engine(client, 4)
    client.close()
    for call in (engine.put, engine.get, client.stat, lambda: client.lookup(
            engine.keys, engine.namespace), lambda: client.release(1), client.poll,
                 lambda: engine.memory.view, engine.bytes, engine.memory.release,
                 lambda: client.create_memory(4096)):
        with pytest.raises(kvsidecar.Misuse):
            call()


class Imposter:
    """A socket where the daemon's should be; accepts, and does what `then` does."""

    def __init__(self, path, then):
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(path)
        self.listening.listen()
        self.thread = threading.Thread(target=self.serve, args=(then,))
        self.thread.start()

    def serve(self, then):
        while True:
            try:
                peer, _ = self.listening.accept()
            except OSError:
                return
            with peer:
                then(peer)

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listening.close()


def hang_up(peer):
    peer.recv(4096)


def talk_nonsense(peer):
    peer.recv(4096)
    peer.send(b"\xff" * 64)


def hand_over_files_and_hang_up(peer):
    peer.recv(4096)
    found = [os.memfd_create(f"imposter {i}") for i in range(4)]
    socket.send_fds(peer, [b"\0" * 256], found)
    for fd in found:
        os.close(fd)


@pytest.mark.parametrize("then", [hang_up, talk_nonsense, hand_over_files_and_hang_up])
def test_a_client_that_fails_to_open_leaves_nothing_behind(library, tmp_path, then):
    """A constructor that fails after its file, or after its shared memory."""
    path = str(tmp_path / "socket")
    imposter = Imposter(path, then)
    before = held()
    for _ in range(3):
        with pytest.raises(OpenFailed):
            kvsidecar.Client(path, connect_timeout=0.2)
    eventually(lambda: held() == before, "all that it took is given back")
    imposter.close()


def test_a_client_that_fails_to_open_closes_nobody_elses_files(library, tmp_path):
    sentinels = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
    for _ in range(8):
        with pytest.raises(OpenFailed):
            kvsidecar.Client(str(tmp_path / "none"), connect_timeout=0.01)
    for fd in sentinels:
        os.fstat(fd)
        os.close(fd)


def test_giving_back_what_was_never_had_is_safe(library, tmp_path):
    client = kvsidecar.Client(str(tmp_path / "none"), allow_disconnected=True,
                              connect_timeout=0.01)
    layout_of_nothing = client.attach(kvsidecar.NamespaceFields(
        model="m", revision="r", dtype="d", quantization="none", layout="l", pool="kv",
        draft_model="none", tokens_per_page=1, tp_size=1, pp_size=1, cp_size=1, slice=0, slices=1,
        parts=[kvsidecar.Part(kvsidecar.Coordinate(), 8)]), timeout=0.01)
    layout_of_nothing.detach()
    assert client.release(12345, timeout=0.01).result().status == Status.UNAVAILABLE
    client.close()
    client.close()


# Defect 10: signal handlers, calls without a limit, a failure that closes another's client.

def test_a_client_leaves_signal_handlers_alone(daemon, library):
    program = ("import signal, sys\n"
               "sys.path[:0] = sys.argv[2:]\n"
               "before = [signal.getsignal(n) for n in signal.valid_signals()]\n"
               "import kvsidecar\n"
               "client = kvsidecar.Client(sys.argv[1])\n"
               "assert [signal.getsignal(n) for n in signal.valid_signals()] == before\n"
               "print('ready', flush=True)\n"
               "signal.pause()\n")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        child = subprocess.Popen([sys.executable, "-c", program, daemon.socket] + sys.path,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        ended = child.wait(30)
        child.stdout.close()
        assert ended != 0  # as it would have without a client


def test_no_call_outlasts_its_limit_while_the_daemon_stands_still(daemon):
    with kvsidecar.Client(daemon.socket) as client:
        engine = Engine(client, 4)
        engine.put().wait()
        daemon.pause()
        try:
            ops = [client.lookup(engine.keys, engine.namespace, timeout=0.05),
                   engine.put(timeout=0.05), client.stat(timeout=0.05)]
            for op in ops:
                assert op.result().status in (Status.TIMEOUT, Status.REVOKED) or all(
                    item == Status.TIMEOUT for item in op.result().items)
        finally:
            daemon.resume()
        assert engine.get(timeout=30).result().succeeded == 4


def test_one_users_mistake_leaves_the_client_to_the_others(client):
    engine = Engine(client, 4)
    assert engine.put().result().succeeded == 4
    assert client.get(engine.namespace, engine.keys, engine.layout,
                      [0, 1, 2, 10 ** 6]).result().succeeded == 0
    with pytest.raises(kvsidecar.Misuse):
        client.put(engine.namespace, engine.keys, engine.layout, [0])
    assert not client.register_layout(10 ** 9, [kvsidecar.Run(engine.memory, 0, 1, 1)]).ok
    assert engine.get().result().succeeded == 4 and engine.loaded_bytes_are_right()
