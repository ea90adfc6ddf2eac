# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever happens to the store's folder costs the pages concerned, never a wrong byte and
never the daemon.

Method: a real directory that is full, or whose files are cut, overwritten, swapped or removed under
the daemon's feet; then every page is asked for. (Bug reports K5, O1-14, O1-18.)
"""
import ctypes
import os
import shutil

import pytest

import accounts
import content
from engine import Engine
from kvsidecar import Place, Status
from waiting import eventually

PAGES = 120  # 7.5 MiB
POOL_PAGES = 1200  # more than the pool holds: pushes everything else out
CLONE = dict(store={"segment_bytes": "4MiB"})
GONE = {Status.MISS, Status.CORRUPT, Status.IO_ERROR}
_libc = ctypes.CDLL(None, use_errno=True)


def stored(daemon, keys):
    with Engine(daemon.socket, len(keys)) as engine:
        assert engine.put(keys, durable=True, timeout=20).result().succeeded == len(keys)


def segments(daemon):
    """Segment files, oldest first."""
    found = []
    for folder, _, files in os.walk(daemon.path("store")):
        found += [os.path.join(folder, name) for name in files
                  if os.path.getsize(os.path.join(folder, name)) > 100_000]
    return sorted(found)


def statuses(daemon, keys):
    with Engine(daemon.socket, len(keys)) as engine:
        return engine.check_get(keys, timeout=20)


def works_as_before(daemon, keys):
    """Every page can be put again and is found again."""
    with Engine(daemon.socket, len(keys)) as engine:
        assert set(engine.check_put(keys, timeout=20)) <= {Status.OK, Status.EXISTS}
        assert set(engine.check_get(keys, timeout=20)) == {Status.OK}


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def cut_to_nothing(path):
    os.truncate(path, 0)


def overwrite_the_middle(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for start in range(size // 2, size, 4096):
            file.seek(start)
            file.write(os.urandom(64))


def overwrite_all(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(os.urandom(size))


def zero_all(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(bytes(size))


def flip_one_bit(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) - 30_000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))


def remove(path):
    os.unlink(path)


def replace_by_a_folder(path):
    os.unlink(path)
    os.mkdir(path)


def replace_by_a_link(path):
    os.unlink(path)
    os.symlink("/etc/passwd", path)


HARM = [cut, cut_to_nothing, overwrite_the_middle, overwrite_all, zero_all, flip_one_bit, remove,
        replace_by_a_folder, replace_by_a_link]


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_files_harmed_between_two_daemons_cost_their_pages_only(start, harm):
    daemon = start(**CLONE)
    keys = content.keys(range(PAGES))
    stored(daemon, keys)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    files = segments(daemon)
    assert len(files) >= 2
    harm(files[0])
    daemon.start()
    accounts.take_baseline(daemon)
    found = statuses(daemon, keys)
    assert set(found) <= GONE | {Status.OK}
    assert GONE & set(found) and found.count(Status.OK) >= PAGES // 4, found
    works_as_before(daemon, keys)


@pytest.mark.parametrize("harm", HARM[:7], ids=lambda harm: harm.__name__)
def test_files_harmed_under_the_daemons_feet_are_misses(start, harm):
    daemon = start(**CLONE)
    keys = content.keys(range(PAGES))
    stored(daemon, keys)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    daemon.start()
    accounts.take_baseline(daemon)
    with Engine(daemon.socket, PAGES) as engine:
        assert set(engine.lookup(keys).result().places) == {Place.STORE}
        harm(segments(daemon)[0])
        daemon.store_was_harmed = True
        assert set(engine.check_get(keys, timeout=20)) <= GONE | {Status.OK}
    works_as_before(daemon, keys)


def test_swapped_files_never_give_another_pages_bytes(start):
    """O1-14: a page that isn't what its key says is a miss."""
    daemon = start(**CLONE)
    keys = content.keys(range(PAGES))
    stored(daemon, keys)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    one, two = segments(daemon)[:2]
    os.rename(one, one + ".aside")
    os.rename(two, one)
    os.rename(one + ".aside", two)
    daemon.start()
    accounts.take_baseline(daemon)
    assert set(statuses(daemon, keys)) <= GONE | {Status.OK}
    works_as_before(daemon, keys)


def test_foreign_files_in_the_folder_are_left_alone(start):
    daemon = start(**CLONE)
    keys = content.keys(range(PAGES))
    stored(daemon, keys)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    folder = os.path.dirname(segments(daemon)[0])
    foreign = {"notes.txt": b"mine", "core": os.urandom(200), ".hidden": b""}
    for name, data in foreign.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    os.mkdir(os.path.join(folder, "sub"))
    shutil.copy(segments(daemon)[0], os.path.join(folder, "copy of a segment"))
    daemon.start()
    accounts.take_baseline(daemon)
    assert set(statuses(daemon, keys)) == {Status.OK}
    for name, data in foreign.items():
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read() == data
    assert os.path.isdir(os.path.join(folder, "sub"))


def test_a_folder_that_vanishes_costs_the_pages_and_not_the_daemon(start):
    daemon = start(**CLONE)
    keys = content.keys(range(PAGES))
    stored(daemon, keys)
    for folder in os.listdir(daemon.path("store")):
        shutil.rmtree(os.path.join(daemon.path("store"), folder))
    daemon.store_was_harmed = True
    with Engine(daemon.socket, PAGES) as engine:
        assert set(engine.check_get(keys)) == {Status.OK}  # the host pool has them
        more = content.keys(range(POOL_PAGES), b"more")
        for start_ in range(0, POOL_PAGES, PAGES):
            taken = engine.check_put(more[start_:start_ + PAGES], timeout=20)
            assert set(taken) <= {Status.OK, Status.BUSY}
        assert set(engine.check_get(keys, timeout=20)) <= GONE | {Status.OK}
    assert daemon.http("/healthz")[0] == 200


@pytest.fixture
def tiny_store(tmp_path):
    """A file system of 6 MiB."""
    if os.getuid() != 0:
        pytest.skip("needs root: mounts a tmpfs")
    path = str(tmp_path / "tiny")
    os.mkdir(path)
    if _libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, b"size=6m") != 0:
        pytest.skip(f"no tmpfs can be mounted here: {os.strerror(ctypes.get_errno())}")
    yield path
    _libc.umount2(path.encode(), 2)


def test_a_full_file_system_costs_pages_and_heals(tiny_store, start):
    daemon = start(store={"root": tiny_store, "capacity_bytes": "64MiB", "segment_bytes": "1MiB"})
    keys = content.keys(range(PAGES * 2))  # 15 MiB
    with Engine(daemon.socket, len(keys)) as engine:
        durable = engine.check_put(keys, durable=True, timeout=20)
        assert set(durable) == {Status.OK, Status.NOT_STORED}
        assert set(engine.check_get(keys, timeout=20)) == {Status.OK}  # all in memory
        counters = accounts.status(daemon)["counters"]
        assert counters["not_stored"] == durable.count(Status.NOT_STORED)
    assert daemon.http("/healthz")[0] == 200
    assert daemon.terminate() == 0
    daemon.forget_pool()
    daemon.start()
    accounts.take_baseline(daemon)
    found = statuses(daemon, keys)
    for status, was in zip(found, durable):
        assert status == Status.OK or was == Status.NOT_STORED, (status, was)
    assert _libc.mount(b"tmpfs", tiny_store.encode(), b"tmpfs", 32, b"size=64m") == 0  # MS_REMOUNT
    more = content.keys(range(20), b"more")

    def stored_again():
        with Engine(daemon.socket, len(more)) as engine:
            engine.client.delete(engine.space, more, timeout=10).result()
            return set(engine.check_put(more, durable=True, timeout=10)) == {Status.OK}

    eventually(stored_again, "it writes again", pid=daemon.pid)
