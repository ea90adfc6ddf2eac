# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever the daemon does, SGLang gets an answer in time and never wrong bytes (O2-03).

Method: the daemon is absent, killed, stopped in the middle, started again; deadlines are short
settings, and what is asserted is the answer, never how long it took.
"""
import os
import signal
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from daemon import Daemon
from hicache_scene import backend as scene_backend
from hicache_scene import hashes
from host_pools import Flat, Mamba, Mha
from kvsidecar import Client, Misuse, Status
from kvsidecar.sglang.hicache_settings import TRANSFER_MOST_S
from kvsidecar.sglang.patience import HURRIED_S, HURRY_S, Patience
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from waiting import eventually

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path += [os.path.join(TESTS, "process"), os.path.join(TESTS, "engines", "vllm")]

from copies import AtCopy  # noqa: E402
from raw_peer import WELCOME, WELCOME_MAGIC  # noqa: E402

KEYS = hashes("prompt", 3)
HERE, THERE = (1, 2, 3), (7, 8, 9)
SHORT = {"get_timeout_s": 0.5, "set_timeout_s": 0.5, "lookup_deadline_ms": 100,
         "connect_timeout_s": 0.05, "attach_timeout_s": 0.05}
ALLOCATORS = pytest.mark.parametrize("allocator", ["shm", "default"])


def store(backend, seed=1):
    pool = backend.hosts["kv"]
    content = pool.fill(seed, *HERE)
    return content, backend.batch_set_v1(KEYS, pool.slots(*HERE))


def load(backend):
    pool = backend.hosts["kv"]
    done = backend.batch_get_v1(KEYS, pool.slots(*THERE))
    return [pool.page(number) if one else None for number, one in zip(THERE, done)]


def everything_is_missed(backend):
    pool = backend.hosts["kv"]
    untouched = pool.fill(50, *THERE)
    assert backend.batch_exists(KEYS) == 0
    assert backend.batch_exists_v2(KEYS, [PoolTransfer("kv")]).kv_hit_pages == 0
    assert load(backend) == [None] * 3
    assert store(backend)[1] == [False] * 3
    assert backend.batch_get_v2([PoolTransfer("kv", pool.slots(*THERE), keys=KEYS)]) == {
        "kv": [False] * 3}
    assert [pool.page(number) for number in THERE] == untouched


@ALLOCATORS
def test_without_a_daemon_the_engine_starts_and_attaches_when_there_is_one(
        tmp_path, open_backend, allocator, caplog):
    node = Daemon(tmp_path / "node")
    try:
        backend = open_backend(node, pools={"kv": Mha(allocator)}, extra=SHORT)
        assert sum("no daemon takes this engine" in text for text in caplog.messages) == 1
        everything_is_missed(backend)
        node.start().log_has(r"\bchunk_ready\b")
        eventually(lambda: backend.session.connected, "it has attached by itself")
        eventually(lambda: store(backend)[1] == [True] * 3, "pages are stored")
        eventually(lambda: load(backend) == store(backend)[0], "the pages are there")
    finally:
        node.remove()


@ALLOCATORS
def test_a_killed_daemon_is_a_miss_and_comes_back(daemon, open_backend, allocator):
    backend = open_backend(daemon, pools={"kv": Mha(allocator)}, extra=SHORT)
    eventually(lambda: store(backend)[1] == [True] * 3, "pages are stored")
    want = store(backend)[0]
    daemon.kill()
    eventually(lambda: not backend.session.connected, "the daemon's death is seen")
    everything_is_missed(backend)
    daemon.start()
    eventually(lambda: backend.session.connected, "it has attached by itself")
    eventually(lambda: load(backend) == want, "pages of before are found, or stored again")


@ALLOCATORS
def test_a_daemon_that_stands_still_is_a_miss_at_the_deadline(daemon, open_backend, allocator):
    backend = open_backend(daemon, pools={"kv": Mha(allocator)}, extra=SHORT)
    eventually(lambda: store(backend)[1] == [True] * 3, "pages are stored")
    want = store(backend)[0]
    daemon.pause()
    everything_is_missed(backend)
    pool = backend.hosts["kv"]
    given_away = pool.fill(60, *THERE)  # SGLang has other plans with these pages
    daemon.resume()
    eventually(lambda: backend.batch_exists(KEYS) == 3, "it answers again")
    assert [pool.page(number) for number in THERE] == given_away, "nothing was written late"
    eventually(lambda: load(backend) == want, "the pages are there")


def test_a_set_that_was_given_up_never_becomes_a_page_of_other_bytes(daemon, open_backend):
    backend = open_backend(daemon, extra=SHORT)
    pool = backend.hosts["kv"]
    daemon.pause()
    assert store(backend, 1)[1] == [False] * 3
    want = pool.fill(2, *HERE)
    daemon.resume()
    eventually(lambda: backend.batch_set_v1(KEYS, pool.slots(*HERE)) == [True] * 3, "it is stored")
    eventually(lambda: load(backend) == want, "the pages are there")


def test_after_an_unanswered_set_the_next_ones_wait_less_until_it_answers(daemon, open_backend):
    backend = open_backend(daemon, extra=SHORT)
    eventually(lambda: store(backend)[1] == [True] * 3, "pages are stored")
    patience = backend._transfers._set_patience
    patient = patience.deadline_s()
    daemon.pause()
    store(backend)
    hurried = patience.deadline_s()
    daemon.resume()
    eventually(lambda: store(backend)[1] == [True] * 3, "it answers again")
    assert (patient, hurried, patience.deadline_s()) == (0.5, 0.1, 0.5)


def test_a_slow_daemon_is_given_its_time_again_after_a_while():
    now = [100.0]
    patience = Patience(4, lambda: now[0])
    patience.ended(4, answered=False)
    assert patience.deadline_s() == HURRIED_S
    patience.ended(HURRIED_S, answered=False)  # in so short a time that says nothing new
    now[0] += HURRY_S
    assert patience.deadline_s() == 4
    patience.ended(4, answered=False)
    patience.ended(HURRIED_S, answered=True)
    assert patience.deadline_s() == 4


@pytest.mark.parametrize("pool", [Flat, Mamba])
def test_pools_of_other_kinds_miss_as_well(daemon, open_backend, pool):
    side = pool("default")
    backend = open_backend(daemon, pools={"kv": Mha(), "side": side}, extra=SHORT)
    moved = [PoolTransfer("side", side.slots(*HERE), keys=KEYS)]
    want = side.fill(1, *HERE)
    eventually(lambda: backend.batch_set_v2(moved) == {"side": [True] * 3}, "pages are stored")
    daemon.pause()
    assert backend.batch_get_v2(moved) == {"side": [False] * 3}
    daemon.resume()
    eventually(lambda: backend.batch_get_v2(moved) == {"side": [True] * 3}, "it answers again")
    assert [side.page(number) for number in HERE] == want


def test_all_pools_of_a_call_have_the_time_of_one(daemon, open_backend, monkeypatch):
    """A detach joins SGLang's threads for ten seconds."""
    pools = {"kv": Mha(), "swa": Mha(head_dim=4), "mamba": Mamba(), "draft": Mha(head_dim=2)}
    backend = open_backend(daemon, pools=pools, extra={"get_timeout_s": 4})
    now, waits, get = [100.0], [], Client.get

    def slow(self, *arguments, **how):
        """Each answer comes two seconds before its deadline."""
        waits.append(how["timeout"])
        now[0] += how["timeout"] - 2
        return get(self, *arguments, **how)

    for module in ("hicache", "transfers"):
        monkeypatch.setattr(f"kvsidecar.sglang.{module}.time", SimpleNamespace(
            monotonic=lambda: now[0]))
    monkeypatch.setattr(Client, "get", slow)
    backend.batch_get_v2([PoolTransfer(name, pool.slots(*HERE), keys=KEYS)
                          for name, pool in pools.items()])
    assert waits == [4, TRANSFER_MOST_S - 2, 2, 2]


def test_a_fault_between_two_shares_of_a_page_leaves_none_of_them_running(daemon, open_backend,
                                                                         monkeypatch):
    """The slots are SGLang's again when the call returns."""
    pool = Mha(layout="page_head", pages=400)
    backend = open_backend(daemon, pools={"kv": pool}, tp_lcm_size=2, should_split_heads=True)
    begun, get = [], Client.get

    def fail_twice(self, *arguments, **how):
        if len(begun) == 1:
            raise Misuse("the namespace has just been detached")
        begun.append(get(self, *arguments, **how))
        return begun[-1]

    monkeypatch.setattr(Client, "get", fail_twice)
    daemon.pause()
    assert backend.batch_get_v1(KEYS, pool.slots(*THERE)) == [False] * 3
    finished = [op._result is not None for op in begun]
    daemon.resume()
    assert finished == [True]


class Standstill:
    """The daemon stops in the middle of its copy for a get of many pages."""

    PAGES = 800

    def __init__(self, daemon, open_backend):
        self.daemon, self._pid = daemon, daemon.pid
        self.backend = open_backend(daemon, pools={"kv": Mha(pages=2 * self.PAGES, head_dim=512)},
                                    extra={"get_timeout_s": 0.3})
        self.pool, self.keys = self.backend.hosts["kv"], hashes("many", self.PAGES)
        self.want = self.pool.fill(1, *range(self.PAGES))
        assert all(self.backend.batch_set_v1(self.keys, self.pool.slots(*range(self.PAGES))))

    def _get(self):
        there = self.pool.slots(*range(self.PAGES, 2 * self.PAGES))
        self.answer = self.backend.batch_get_v1(self.keys, there)
        self.after = self.pages()

    def pages(self):
        return [self.pool.page(self.PAGES + i) for i in range(self.PAGES)]

    def _stands_in_a_copy(self):
        """It may have been too fast."""
        self.answer = None
        with AtCopy(self.daemon, lambda: os.kill(self._pid, signal.SIGSTOP)) as copy:
            self.thread = threading.Thread(target=self._get)
            self.thread.start()
            eventually(lambda: copy.seen or self.answer, "the daemon copies")
        self.thread.join(0.5)  # longer than its deadline
        if self.answer is None:
            return True
        self.daemon.resume()
        return False

    def __enter__(self):
        eventually(self._stands_in_a_copy, "the daemon stands in the middle of a copy")
        return self

    def __exit__(self, *_):
        self.thread.join()


@pytest.mark.parametrize("end", ["goes on", "dies"])
def test_a_get_that_is_being_copied_ends_with_the_daemons_standstill(daemon, open_backend, end):
    with Standstill(daemon, open_backend) as still:
        daemon.resume() if end == "goes on" else daemon.kill()
    got = still.answer
    assert [still.after[i] for i in range(still.PAGES) if got[i]] == [
        still.want[i] for i in range(still.PAGES) if got[i]]
    assert still.pages() == still.after, "nothing was written late"


def test_a_close_under_a_get_that_is_being_copied_returns_and_ends_behind_it(daemon, library,
                                                                            monkeypatch, caplog):
    monkeypatch.setattr("kvsidecar.sglang.hicache.CLOSE_S", 0.2)
    with Standstill(daemon, lambda *given, **how: scene_backend(
            given[0].socket, **how)) as still:
        client = still.backend.session.client
        still.backend.close()
        assert "still being copied" in caplog.text and client is still.backend.session.client
        assert still.backend.batch_exists(KEYS) == 0
        daemon.resume()
    assert still.backend.session.client is None
    assert still.pages() == still.after


def test_a_daemon_that_refuses_leaves_the_engine_without_it(tmp_path, open_backend, caplog):
    others = [{"uid": [4_000_000_000], "permissions": ["read"]}]
    with Daemon(tmp_path / "node", allow=others) as node:
        backend = open_backend(node, extra=SHORT)
        everything_is_missed(backend)
        assert any("no [[allow]] entry" in text and "serves without it" in text
                   for text in caplog.messages)


def test_a_daemon_of_another_version_leaves_the_engine_without_it(tmp_path, open_backend, caplog):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen()

        def refuse():
            with door.accept()[0] as peer:
                peer.recv(4096)
                peer.send(WELCOME.pack(WELCOME_MAGIC, WELCOME.size, Status.UNSUPPORTED_VERSION, 9,
                                       0, 0, 0, 0, *[0] * 6, bytes(16), b"this daemon speaks 9"))

        thread = threading.Thread(target=refuse)
        thread.start()
        backend = open_backend(path, extra={**SHORT, "connect_timeout_s": 2})
        thread.join()
    everything_is_missed(backend)
    assert any("this daemon speaks 9" in text and "serves without it" in text
               for text in caplog.messages)


def test_after_close_every_call_is_a_miss(daemon, open_backend):
    backend = open_backend(daemon)
    assert store(backend)[1] == [True] * 3
    backend.close()
    backend.close()
    everything_is_missed(backend)
    backend.clear()
    assert backend.set("other key", None) is False and backend.exists(KEYS[0]) is False


@pytest.mark.parametrize("method, arguments, answer", [
    ("batch_get_v1", ([KEYS[0]], None), [False]), ("batch_set_v1", ([KEYS[0]], None), [False]),
    ("batch_exists", ([KEYS[0]],), 0), ("batch_get", ([KEYS[0]], [None]), [None]),
    ("batch_set", ([KEYS[0]], [None]), False), ("exists", (KEYS[0],), False)])
def test_a_fault_of_its_own_never_reaches_sglang(daemon, open_backend, monkeypatch, caplog, method,
                                                 arguments, answer):
    backend = open_backend(daemon)

    def fail(*_, **__):
        raise RuntimeError("a fault")

    for name in ("_pools", "_whole"):
        monkeypatch.setattr(backend, name, type("Broken", (), {
            "get": fail, "set": fail, "names_for": fail})())
    for _ in range(3):
        assert getattr(backend, method)(*arguments) == answer
    assert sum("a fault" in text for text in caplog.messages) == 1
