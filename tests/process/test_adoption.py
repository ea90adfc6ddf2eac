# SPDX-License-Identifier: Apache-2.0
"""Goal: a daemon may be killed anywhere in its start, and while slots that its predecessor was
filling are still set aside: what was stored is there, what was being stored is exact or a miss, and
no slot is lost. (Bug reports O3-01, O3-22.)

Method: a pool of many chunks, which come in one after the other: lives that end when a share of
them is mapped; and lives that are killed in the middle of a put, whose successors are killed when
they have set its slots aside. At last all is deleted, and every span must be empty.
"""
import accounts
import content
from claims import Claims
from daemon import proc_text
from engine import Engine
import kvsidecar
from kvsidecar import Status
from waiting import eventually

CHUNKS = 96
POOL = {"host_pool": {"bytes": f"{2 * CHUNKS}MiB", "chunk_bytes": "2MiB", "span_bytes": "1MiB"},
        "store": {"kind": "none", "root": ""}, "copy": {"threads": 1, "inline_bytes": 0}}
PAGE_BYTES, PAGES = 8192, 5000  # 40 of the pool's 192 MiB
BIG_BYTES, BIG_PAGES = 512 * 1024, 80  # a copy of some milliseconds; each page takes a span
STARTS, PUTS = 10, 3
ATTEMPTS = 80  # a look at what is mapped may come too late on a busy machine


def mapped_chunks(daemon):
    """How many chunks the present life has mapped by now."""
    return proc_text(daemon.process.pid, "maps").count(f"/dev/shm/kvsidecar.{daemon.pool}.")


def start_and_kill(daemon, chunks):
    """A life that ends when so many chunks are mapped; how many these were."""
    daemon.spawn()
    seen = []
    eventually(lambda: seen.append(mapped_chunks(daemon)) or seen[-1] >= chunks,
               f"{chunks} chunks are mapped", pid=daemon.process.pid, look=0)
    daemon.kill()
    return seen[-1]


def put_and_kill(daemon, engine, attempt):
    """A life that ends in the middle of a put; the keys of it. Into a whole pool: what comes in is
    full first, and a put takes its room from the pages of an earlier life."""
    eventually(lambda: accounts.status(daemon)["host_pool"]["bytes"] == CHUNKS << 21,
               "the pool is whole", pid=daemon.pid)
    earlier = content.keys(range(BIG_PAGES), b"big%d" % (attempt - 1))
    keys = content.keys(range(BIG_PAGES), b"big%d" % attempt)
    assert engine.client.delete(engine.space, earlier, timeout=10).result().ok
    for block, key in enumerate(keys):
        engine.fill(block, key)
    op = engine.client.put(engine.space, keys, engine.layout, range(BIG_PAGES), timeout=10)
    Claims().wait_for_copy(op)
    daemon.kill()
    op.result()
    return keys


def quarantined(daemon):
    return accounts.status(daemon)["host_pool"]["slots_quarantined"]


def start_and_kill_with_slots_aside(daemon):
    """They come back a moment after the last chunk is in. False: none was seen."""
    daemon.start()
    with kvsidecar.Client(daemon.socket) as client:
        for aside in iter(lambda: accounts.status_by(client)["host_pool"], None):
            if aside["slots_quarantined"] or aside["bytes"] == CHUNKS << 21:
                break
    daemon.kill()
    return aside["slots_quarantined"] > 0


def check_all(socket, page_bytes, keys, allowed):
    """Every page is exact or a miss; which statuses there were."""
    seen = set()
    with Engine(socket, 500, page_bytes) as engine:
        for first in range(0, len(keys), 250):  # more checks at once than a queue holds are BUSY
            seen |= set(engine.check_get(keys[first:first + 250], timeout=20))
    assert seen <= allowed, seen


def check_account(daemon, *stored):
    """(page bytes, keys) …: when these are deleted, every span is empty."""
    for page_bytes, keys in stored:
        with Engine(daemon.socket, 1, page_bytes) as engine:
            assert engine.client.delete(engine.space, keys, timeout=10).result().ok
    pool = {}

    def empty():
        pool.update(accounts.status(daemon)["host_pool"])
        return pool["spans_empty"] == pool["spans"] == 2 * CHUNKS

    eventually(empty, "every span is empty", pid=daemon.pid)
    assert not pool["slots_full"] + pool["slots_filling"] + pool["slots_quarantined"], pool


def test_a_daemon_killed_anywhere_in_its_start_loses_nothing(start):
    daemon = start(**POOL)
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket, PAGES, PAGE_BYTES) as engine:
        assert engine.put(keys, timeout=20).result().succeeded == PAGES
    daemon.kill()
    inside = 0
    for number in range(ATTEMPTS):
        inside += 0 < start_and_kill(daemon, CHUNKS * (number % STARTS) // STARTS) < CHUNKS
        if inside == STARTS:
            break
    assert inside == STARTS
    daemon.start()
    accounts.take_baseline(daemon)
    assert accounts.status(daemon)["counters"]["pages_adopted"] == PAGES
    check_all(daemon.socket, PAGE_BYTES, keys, {Status.OK})
    check_account(daemon, (PAGE_BYTES, keys))


def test_slots_of_a_put_that_was_cut_off_come_back_whenever_the_successors_are_killed(start):
    daemon = start(**POOL)
    keys = content.keys(range(PAGES // 4))
    with Engine(daemon.socket, PAGES // 4, PAGE_BYTES) as engine:
        assert engine.put(keys, timeout=20).result().succeeded == PAGES // 4
    seen = 0
    for attempt in range(1, ATTEMPTS):
        with Engine(daemon.socket, BIG_PAGES, BIG_BYTES) as engine:
            cut_off = put_and_kill(daemon, engine, attempt)
        start_and_kill(daemon, CHUNKS // 2)
        seen += start_and_kill_with_slots_aside(daemon)
        start_and_kill(daemon, CHUNKS)
        daemon.start()
        if seen == PUTS:
            break
    assert seen == PUTS
    accounts.take_baseline(daemon)
    eventually(lambda: quarantined(daemon) == 0, "no slot is aside", pid=daemon.pid)
    check_all(daemon.socket, PAGE_BYTES, keys, {Status.OK})
    check_all(daemon.socket, BIG_BYTES, cut_off, {Status.OK, Status.MISS})
    check_account(daemon, (PAGE_BYTES, keys), (BIG_BYTES, cut_off))
