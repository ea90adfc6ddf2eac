# SPDX-License-Identifier: Apache-2.0
"""Goal: the log of either door says what an operator has to know, once, and when it is true: what
is stored and where, that a daemon has come, what follows from a reset, an update or a missing
library.

Method: both doors over a real daemon that is there or comes later; the wait for it over answers of
the test's making.
"""
import pytest
import sglang.srt.runtime_context as runtime
from hicache_scene import config
from linker_scene import Engine

import kvsidecar.client
from daemon import Daemon
from kvsidecar import LibraryNotFound
from kvsidecar.sglang import first_contact
from kvsidecar.sglang.first_contact import FirstContact
from waiting import eventually

SHORT = {"connect_timeout_s": 0.05, "attach_timeout_s": 0.05}


@pytest.fixture(autouse=True)
def everything_is_logged(caplog):
    caplog.set_level("INFO")


@pytest.fixture
def node(tmp_path):
    """Not started."""
    made = Daemon(tmp_path / "node")
    yield made
    made.remove()


@pytest.fixture(params=["HiCache", "the linker"])
def door(request, library, tmp_path):
    """(its name, what opens it over a socket, its model as told)"""
    opened = []

    def hicache(socket):
        from kvsidecar.sglang import HiCache
        opened.append(HiCache(config(socket, SHORT), {}))

    def linker(socket):
        opened.append(Engine(tmp_path / "tiny", socket, revision="r1", **SHORT).linker)

    yield (request.param, hicache if request.param == "HiCache" else linker,
           f"{request.param} stores " + ("org/tiny" if request.param == "HiCache" else "tiny"))
    for one in opened:
        one.close()


def count(caplog, text):
    return sum(text in message for message in caplog.messages)


def test_what_is_stored_and_where_is_told_at_the_start(daemon, door, caplog):
    _, begin, told = door
    begin(daemon.socket)
    assert count(caplog, f"{told}, revision r1, in the daemon at {daemon.socket}") == 1
    assert count(caplog, "connected to the daemon") == 0


def test_without_a_daemon_it_is_told_when_one_comes(node, door, caplog):
    _, begin, told = door
    begin(node.socket)
    assert count(caplog, "no daemon takes this engine") == 1
    assert count(caplog, told) == 0 and count(caplog, "connected to the daemon") == 0
    node.start()
    eventually(lambda: count(caplog, told), "it is told")
    where = f"in the daemon at {node.socket}"
    assert count(caplog, f"{told}, revision r1, {where}") == count(caplog, told) == 1
    assert count(caplog, f"connected to the daemon at {node.socket}; pages are stored and loaded "
                         "from now on") == 1


def test_why_there_is_no_daemon_is_told_once(node, door, caplog):
    _, begin, _ = door
    begin(node.socket)
    assert count(caplog, "not connected: ") == 1
    assert count(caplog, "no daemon takes this engine") == 1


def test_a_missing_library_is_told_with_what_follows(door, monkeypatch, caplog):
    def nothing():
        raise LibraryNotFound("no such file; name the client library's file in KVSIDECAR_LIBRARY")

    monkeypatch.setattr(kvsidecar.client, "library", nothing)
    _, begin, told = door
    begin("/nowhere")
    assert count(caplog, "KVSIDECAR_LIBRARY. The engine serves without it until it is started "
                         "again.") == 1
    assert count(caplog, told) == 0


def test_a_detach_is_told_once(daemon, tmp_path, caplog):
    with Engine(tmp_path / "model", daemon.socket) as engine:
        assert count(caplog, "a namespace of its own") == 0
        engine.linker.reset()
        engine.linker.reset()
        assert count(caplog, "goes on in a namespace of its own") == 1


def test_an_engine_that_keeps_its_pages_tells_of_no_detach(daemon, tmp_path, caplog):
    with Engine(tmp_path / "model", daemon.socket, on_reset="keep") as engine:
        engine.linker.reset()
        assert count(caplog, "a namespace of its own") == 0


def weights(version):
    runtime.get_context()._resolved["weight_version"] = version


def test_a_clear_behind_an_update_tells_which_version_is_used_now(daemon, open_backend, caplog):
    backend = open_backend(daemon)
    backend.clear()
    assert count(caplog, "goes on with the pages") == 0, "no other weights"
    weights("2")
    backend.batch_exists(["a" * 64])
    assert count(caplog, "until POST /hicache/storage-backend/clear says") == 1
    backend.clear()
    backend.clear()
    assert count(caplog, "goes on with the pages of weights of version 2") == 1


def test_a_reset_behind_an_update_tells_which_version_is_used_now(daemon, tmp_path, caplog):
    with Engine(tmp_path / "model", daemon.socket) as engine:
        weights("2")
        engine.linker.num_completed_offloads()
        assert count(caplog, "until /flush_cache says") == 1
        assert count(caplog, "storage-backend") == 0, "that is the other door's"
        engine.linker.reset()
        assert count(caplog, "goes on with the pages of weights of version 2") == 1


# The wait for the first connection.


class Scene:
    def __init__(self, monkeypatch, served=True):
        monkeypatch.setattr(first_contact, "LOOK_S", 0.001)
        self.connected, self.served, self.looks = False, served, 0

    def is_connected(self):
        self.looks += 1
        if isinstance(self.connected, Exception):
            raise self.connected
        return self.connected

    def begin(self):
        return FirstContact(self.is_connected, lambda: self.served, "here")


def test_nobody_waits_where_there_is_a_daemon(monkeypatch, caplog):
    scene = Scene(monkeypatch)
    scene.connected = True
    contact = scene.begin()
    contact.tell("it stores")
    contact.close()
    assert scene.looks == 1 and caplog.messages == ["kvsidecar: it stores, in the daemon at here"]


def test_what_a_daemon_has_refused_isnt_called_stored(monkeypatch, caplog):
    scene = Scene(monkeypatch, served=False)
    contact = scene.begin()
    scene.connected = True
    eventually(lambda: caplog.messages, "it is told")
    contact.close()
    assert caplog.messages == ["kvsidecar: connected to the daemon at here"]


def test_nobody_looks_any_more_behind_a_close(monkeypatch, caplog):
    scene = Scene(monkeypatch)
    contact = scene.begin()
    contact.tell("it stores")
    contact.close()
    contact.close()
    looks = scene.looks
    scene.connected = True
    assert not contact._thread.is_alive() and scene.looks == looks and caplog.messages == []


def test_a_client_that_was_closed_meanwhile_ends_the_wait_in_silence(monkeypatch, capfd):
    scene = Scene(monkeypatch)
    contact = scene.begin()
    scene.connected = kvsidecar.Misuse("the client is closed")
    contact._thread.join()
    assert capfd.readouterr().err == ""
