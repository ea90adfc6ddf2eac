# SPDX-License-Identifier: Apache-2.0
"""Goal: what goes on at 3FS can be seen by an operator: status, doctor and metrics agree with what
was done and with what went wrong; what lies in the store's root and isn't this daemon's is left
alone.

Method: a little traffic with one fault at a time, then each of the pages that an operator reads.
"""
import os
import struct
import subprocess

import pytest

import accounts
import content
from daemon import built
from engine import Engine
from kvsidecar import Status
from test_start_and_account import samples
from usrbio_node import BUILTIN, CHUNK_BYTES, WAYS
from waiting import eventually

PAGES = 40
PAGE_BYTES = 65536
CLASSES = ["demand_read", "prefetch", "write"]
BY_CLASS = ["queue", "depth", "quarantined", "transfers_total", "bytes_total", "errors_total",
            "short_total", "staged_bytes_total", "full_total", "late_total"]
NOT_NOW = {Status.MISS, Status.IO_ERROR, Status.CORRUPT}


def metrics(daemon):
    """{(name, class): value} of all that begins with kvsidecar_usrbio_."""
    found = {}
    for name, labels, value in samples(daemon):
        if name.startswith("kvsidecar_usrbio_"):
            found[name[len("kvsidecar_usrbio_"):], labels and labels.split('"')[1]] = value
    return found


def store_only(daemon, keys):
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
    accounts.restart_with_store_only(daemon)


def get(daemon, keys):
    with Engine(daemon.socket) as engine:
        return engine.check_get(keys, timeout=20)


def run(program, *words):
    answer = subprocess.run([built(program), *words], capture_output=True, text=True, timeout=60,
                            check=False)
    return answer.returncode, answer.stdout


def doctor(daemon):
    """{check: (verdict, text)}"""
    _, text = run("kvsidecar", "doctor", "--socket", daemon.socket, "--config",
                  daemon.path("kvsidecar.toml"))
    return {line[6:21].strip(): (line[:5].strip(), line[21:]) for line in text.splitlines()
            if not line.startswith(" ")}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_rings_figures_tell_what_went_through_it(start_node, way):
    daemon = start_node(way)
    assert {(name, kind) for name in BY_CLASS for kind in CLASSES} <= set(metrics(daemon))
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
    wrote = metrics(daemon)
    assert wrote["bytes_total", "write"] >= PAGES * PAGE_BYTES
    assert 0 < wrote["transfers_total", "write"] == wrote["seconds_count", "write"]
    assert wrote["seconds_sum", "write"] > 0
    assert wrote["up", None] == 1 and wrote["registered_bytes", None] == 64 << 20
    accounts.restart_with_store_only(daemon)
    before = metrics(daemon)
    assert set(get(daemon, keys)) == {Status.OK}
    read = metrics(daemon)
    assert read["bytes_total", "demand_read"] - before["bytes_total", "demand_read"] >= \
        PAGES * PAGE_BYTES
    for name in ("queue", "depth", "quarantined", "errors_total", "short_total", "late_total"):
        assert [read[name, kind] for kind in CLASSES] == [0] * 3, name
    # Straight from 3FS into the pool.
    assert read["staged_bytes_total", "demand_read"] == before["staged_bytes_total", "demand_read"]


@pytest.mark.parametrize("at_most, found", [(4096, {Status.OK}), (0, NOT_NOW)],
                         ids=["some", "nothing"])
def test_short_reads_are_counted_and_never_give_half_a_page(start_node, mini3fs, at_most, found):
    """What came is added up until nothing more comes."""
    daemon = start_node()
    keys = content.keys(range(PAGES))
    store_only(daemon, keys)
    mini3fs.set("read.short", at_most)
    assert set(get(daemon, keys)) <= found
    assert metrics(daemon)["short_total", "demand_read"] > 0
    mini3fs.clear()
    eventually(lambda: set(put_and_get(daemon, keys)) == {Status.OK}, "the store is used again",
               pid=daemon.pid)


def put_and_get(daemon, keys):
    with Engine(daemon.socket) as engine:
        engine.check_put(keys, timeout=10)
        return engine.check_get(keys, timeout=10)


def test_pages_that_fail_their_proof_are_counted_and_not_given(start_node, mini3fs):
    daemon = start_node()
    keys = content.keys(range(PAGES))
    store_only(daemon, keys)
    segment, = segments(mini3fs)
    spoil(segment, [content.page(keys[number], PAGE_BYTES).tobytes() for number in (3, 17)])
    daemon.store_was_harmed = True
    statuses = get(daemon, keys)
    assert [number for number, status in enumerate(statuses) if status != Status.OK] == [3, 17]
    counters = accounts.status(daemon)["counters"]
    assert counters["store_proof_failures"] == counters["pages_corrupt"] == 2
    eventually(lambda: ("kvsidecar_store_proof_failures_total", None, 2) in samples(daemon),
               "the metrics tell it", pid=daemon.pid)


def segments(server):
    found = [os.path.join(folder, name) for folder, _, names in os.walk(server.data)
             for name in names if name.endswith(".seg")]
    return sorted(path for path in found if os.path.getsize(path) > 100_000)


def spoil(path, pages):
    with open(path, "r+b") as file:
        data = file.read()
        for page in pages:
            file.seek(data.index(page) + 40_000)
            file.write(b"!")


def test_a_chunk_that_3fs_cannot_use_costs_a_copy_and_a_line(start_node, mini3fs):
    all_but_the_stores_own_buffers = "on@2+"
    mini3fs.set("iov.unpinned", all_but_the_stores_own_buffers)
    daemon = start_node()
    daemon.log_has("store_memory text=.*can't use /dev/shm/kvsidecar.*LimitMEMLOCK=infinity")
    eventually(lambda: metrics(daemon)["refused_chunks_total", None] == 2, "both are refused",
               pid=daemon.pid)
    assert metrics(daemon)["registered_bytes", None] == 0
    keys = content.keys(range(PAGES))
    mini3fs.set("iov.unpinned", all_but_the_stores_own_buffers)  # counted from here
    store_only(daemon, keys)
    assert set(get(daemon, keys)) == {Status.OK}
    assert metrics(daemon)["staged_bytes_total", "demand_read"] >= PAGES * PAGE_BYTES


def test_a_lost_mount_is_counted(start_node, mini3fs):
    daemon = start_node()
    mini3fs.kill()
    eventually(lambda: metrics(daemon)["up", None] == 0, "the loss is told", pid=daemon.pid)
    assert metrics(daemon)["mounts_lost_total", None] == 1
    told = doctor(daemon)
    assert told["store"][0] == told["3fs"][0] == "fail"
    assert "does not answer" in told["3fs"][1]
    mini3fs.restart()
    eventually(lambda: metrics(daemon)["up", None] == 1, "it is back", pid=daemon.pid, seconds=60)
    assert doctor(daemon)["3fs"][0] == "ok"


def test_the_doctor_does_not_wait_for_a_mount_that_hangs(start_node, mini3fs):
    daemon = start_node()
    mini3fs.pause()
    assert doctor(daemon)["3fs"][0] == "fail"
    mini3fs.resume()
    assert doctor(daemon)["3fs"][0] == "ok"


def test_status_and_doctor_show_mount_client_and_memory(start_node, mini3fs):
    daemon = start_node()
    described = f"usrbio (builtin, {mini3fs.mount})"
    code, text = run("kvsidecar", "status", "--socket", daemon.socket)
    assert code == 0 and described in text
    with Engine(daemon.socket) as engine:
        engine.check_put(content.keys(range(PAGES)))
    told = doctor(daemon)
    assert told["3fs"] == told["store"] == ("ok", described)
    verdict, memory = told["3fs memory"]
    assert verdict == "ok" and memory.startswith("one pool of 64.0 MiB for all engines; ")
    assert "16 x 8 x 2 x 64.0 KiB (the pages' mean) = 16.0 MiB for each rank" in memory


def test_foreign_files_in_the_root_are_left_alone(start_node, mini3fs):
    daemon = start_node()
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
    assert daemon.terminate() == 0
    daemon.forget_pool()
    own, = (entry.path for entry in os.scandir(os.path.join(mini3fs.data, "node")))
    foreign = {}
    for folder in (own, os.path.dirname(own), mini3fs.data):
        for name, data in {"notes.txt": b"mine", "core": os.urandom(200), "copy.seg": b""}.items():
            foreign[os.path.join(folder, name)] = data
        os.mkdir(os.path.join(folder, "sub"))
    for path, data in foreign.items():
        with open(path, "wb") as file:
            file.write(data)
    daemon.start()
    daemon.baseline = accounts.take_baseline(daemon)
    assert set(get(daemon, keys)) == {Status.OK}
    for path, data in foreign.items():
        with open(path, "rb") as file:
            assert file.read() == data
    assert os.path.isdir(os.path.join(own, "sub"))


def test_segments_of_another_version_are_left_alone_and_told(start_node, mini3fs):
    daemon = start_node()
    keys = content.keys(range(PAGES))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
    assert daemon.terminate() == 0
    daemon.forget_pool()
    segment, = segments(mini3fs)
    with open(segment, "r+b") as file:
        head = file.read(12)
        version, = struct.unpack_from("<I", head, 8)
        file.seek(8)
        file.write(struct.pack("<I", version + 1))
    before = open_bytes(segment)
    daemon.start()
    daemon.baseline = accounts.take_baseline(daemon)
    daemon.log_has(f"segment format {version + 1} is unknown; this daemon reads format {version}")
    assert set(get(daemon, keys)) == {Status.MISS}
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
        assert set(engine.check_get(keys, timeout=20)) == {Status.OK}
    assert open_bytes(segment) == before


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_chunk_size_that_differs_from_the_file_systems_costs_nothing_but_speed(start_node):
    daemon = start_node(BUILTIN, usrbio={"chunk_bytes": CHUNK_BYTES * 4})
    keys = content.keys(range(PAGES))
    store_only(daemon, keys)
    assert set(get(daemon, keys)) == {Status.OK}
