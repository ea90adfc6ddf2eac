# SPDX-License-Identifier: Apache-2.0
"""Goal: whenever SGLang closes the backend, attaches it anew or forks, nothing crashes, nothing is
written later, and nothing is left behind.

Method: closes while another thread is inside the backend, with the daemon stopped so that it stays
there; descriptors, threads and mappings are counted; a child is forked.
"""
import gc
import os
import threading

import pytest

from hicache_scene import backend, hashes
from host_pools import Flat, Indexer, Mamba, Mha
from kvsidecar import Client, Stat
from kvsidecar.sglang.calls import Calls
from sglang.srt.mem_cache.hicache_storage import PoolTransfer
from waiting import DEADLINE_S, eventually

KEYS = hashes("prompt", 3)
HERE, THERE = (1, 2, 3), (7, 8, 9)
SLOW = {"get_timeout_s": 0.5}


def pools(allocator):
    return {"kv": Mha(allocator), "swa": Mha(allocator, head_dim=4), "mamba": Mamba(allocator),
            "flat": Flat(allocator)}


def use(found, seed):
    keys = hashes(f"prompt {seed}", 3)
    for name, pool in found.hosts.items():
        moved = [PoolTransfer(name, pool.slots(*HERE), keys=keys)]
        assert found.batch_set_v2(moved) == {name: [True] * 3} == found.batch_get_v2(moved)
    assert found.batch_exists(keys) == 3


def left_behind():
    """Descriptors, threads and mappings of this process, without other tests' garbage."""
    gc.collect()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = sum("kvsidecar" in line and ".so" not in line for line in maps)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), mapped


@pytest.mark.parametrize("allocator", ["shm", "default"])
def test_attaching_again_and_again_leaves_nothing_behind(daemon, library, allocator):
    hosts, counts = pools(allocator), []
    for seed in range(4):
        found = backend(daemon.socket, pools=hosts)
        use(found, seed)
        found.close()
        counts.append(left_behind())
    assert counts[1:] == counts[:1] * 3
    with Client(daemon.socket, name="asker") as asker:
        def sessions():
            return asker.stat(Stat.SESSIONS).result().text

        eventually(lambda: "asker" in sessions() and "sglang" not in sessions(),
                   "the daemon has forgotten all of them")


def test_a_constructor_that_fails_leaves_nothing_behind(daemon, library):
    before = left_behind()
    for _ in range(3):
        with pytest.raises(ValueError):
            backend(daemon.socket, should_split_heads=True, tp_lcm_size="eight")
    assert left_behind() == before


@pytest.mark.parametrize("allocator", ["shm", "default"])
def test_a_close_waits_for_the_calls_that_are_in_progress(daemon, library, monkeypatch, allocator):
    """The client's memory is freed by it, under whoever still waits inside the library."""
    found = backend(daemon.socket, pools={"kv": Mha(allocator)}, extra=SLOW)
    done, inside = [], threading.Event()
    get, close, pool = found._transfers.get, found.session.close, found.hosts["kv"]

    def noted_get(*arguments):
        inside.set()
        flags = get(*arguments)
        done.append(flags)
        return flags

    def noted_close(wait_s):
        close(wait_s)
        done.append("closed")

    monkeypatch.setattr(found._transfers, "get", noted_get)
    monkeypatch.setattr(found.session, "close", noted_close)
    daemon.pause()
    thread = threading.Thread(target=found.batch_get_v1, args=[KEYS, pool.slots(*THERE)])
    thread.start()
    assert inside.wait(DEADLINE_S)
    found.close()
    daemon.resume()
    thread.join()
    assert done == [[False] * 3, "closed"]


def test_what_is_to_be_done_last_is_done_behind_the_last_call():
    calls, done = Calls(), []
    assert calls.enter() and calls.enter()
    assert calls.end(lambda: done.append("closed"), 0) is False
    assert calls.enter() is False, "no call begins any more"
    calls.leave()
    assert not done
    calls.leave()
    assert done == ["closed"] and calls.end(lambda: done.append("again"), 0)
    assert done == ["closed"]


def test_an_end_waits_for_a_call_of_another_thread():
    calls, done, inside, go_on = Calls(), [], threading.Event(), threading.Event()

    def call():
        calls.enter()
        inside.set()
        go_on.wait(DEADLINE_S)
        done.append("called")
        calls.leave()

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(DEADLINE_S)
    threading.Timer(0, go_on.set).start()
    assert calls.end(lambda: done.append("closed"), DEADLINE_S)
    thread.join()
    assert done == ["called", "closed"]


def test_a_forked_child_misses_everything_and_harms_nobody(daemon, open_backend):
    found = open_backend(daemon)
    pool = found.hosts["kv"]
    want = pool.fill(1, *HERE)
    assert found.batch_set_v1(KEYS, pool.slots(*HERE)) == [True] * 3
    child = os.fork()
    if child == 0:
        code = 1
        try:
            missed = found.batch_exists(KEYS) == 0 and \
                found.batch_get_v1(KEYS, pool.slots(*THERE)) == [False] * 3 and \
                found.batch_set_v1(hashes("another", 3), pool.slots(*HERE)) == [False] * 3
            found.clear()
            found.close()
            code = 0 if missed else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert found.batch_exists(KEYS) == 3
    assert found.batch_get_v1(KEYS, pool.slots(*THERE)) == [True] * 3
    assert [pool.page(number) for number in THERE] == want


def test_a_pools_descriptor_may_be_closed_and_its_pages_come_back(daemon, open_backend):
    found = open_backend(daemon)
    pool = found.hosts["kv"]
    want = pool.fill(1, *HERE)
    assert found.batch_set_v1(KEYS, pool.slots(*HERE)) == [True] * 3
    for fd in pool.allocator.fds:
        os.close(fd)
    pool.allocator.fds = []
    daemon.kill()
    daemon.start()  # which wants it registered once more
    eventually(lambda: found.batch_get_v1(KEYS, pool.slots(*THERE)) == [True] * 3, "it is back")
    assert [pool.page(number) for number in THERE] == want


def test_a_daemon_that_stands_still_costs_an_attach_one_deadline(daemon, library, monkeypatch):
    """Four pools have a dozen registrations to wait for."""
    waits, made = [], Client.attach

    def attach(self, fields, **how):
        waits.append(how["timeout"])
        return made(self, fields, **how)

    monkeypatch.setattr(Client, "attach", attach)
    first = Mha()
    found = backend(daemon.socket, pools={"kv": first}, extra={"attach_timeout_s": 0.5})
    daemon.pause()
    for name, pool in {"swa": Mha(head_dim=4), "mamba": Mamba(), "indexer": Indexer()}.items():
        found.register_mem_host_pool_v2(pool, name)
    daemon.resume()
    assert waits == [0.5, 0.1, 0.1, 0.1]
    side = found._pools.get("indexer").host
    moved = [PoolTransfer("indexer", side.slots(*HERE), keys=KEYS)]
    eventually(lambda: found.batch_set_v2(moved) == {"indexer": [True] * 3}, "it is attached")
    found.close()
