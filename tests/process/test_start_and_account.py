# SPDX-License-Identifier: Apache-2.0
"""Goal: a start that fails leaves nothing behind, options do what they say, and the account is true
whatever was done.

Method: one step of the start is made to fail at a time; options are set and their effect is looked
for in /proc; a daemon is asked and harmed, and its metrics are read before, during and after.
"""
import os
import re
import socket

import pytest

import accounts
import content
from engine import Engine, fields
from kvsidecar import Status
from raw_peer import RawPeer
from waiting import eventually

SAMPLE = re.compile(r"^(kvsidecar_\w+)(\{[^}]*\})? (\S+)$")


def samples(daemon):
    """[(name, labels, value)] of one scrape."""
    status, text = daemon.http("/metrics")
    assert status == 200
    found = [SAMPLE.match(line) for line in text.splitlines() if line and line[0] != "#"]
    assert all(found), text
    return [(one.group(1), one.group(2), float(one.group(3))) for one in found]


def counters(daemon):
    return {name: value for name, _, value in samples(daemon) if name.endswith("_total")}


def file_in_place_of(path):
    with open(path, "w", encoding="ascii") as file:
        file.write("in the way")


def state_without_epoch(daemon):
    os.makedirs(daemon.path("state"), mode=0o700)
    file_in_place_of(daemon.path("state/epoch"))


def claimed_port(daemon):
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    daemon.sections["metrics"]["listen"] = "127.0.0.1:%d" % holder.getsockname()[1]
    return holder


STEPS = {
    "runtime_dir": lambda daemon: file_in_place_of(daemon.path("run")),
    "state_dir": lambda daemon: file_in_place_of(daemon.path("state")),
    "epoch": state_without_epoch,
    "store.root": lambda daemon: file_in_place_of(daemon.path("store")),
    "metrics.listen": claimed_port,
    "host_pool.bytes": lambda daemon: daemon.sections["host_pool"].update(bytes="900TiB"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_start_that_fails_at_any_step_names_it_and_leaves_nothing(make_daemon, step):
    """O6-08, O6-01: no half-started process, and the next start works."""
    daemon = make_daemon()
    kept = STEPS[step](daemon)
    daemon.spawn(make_store=step != "store.root")
    assert daemon.wait() in (1, 2), daemon.log()
    assert step in daemon.log()
    assert not os.path.exists(daemon.socket)
    assert not daemon.shm_files()
    del kept
    for name in ("run", "state", "store"):
        if os.path.isfile(daemon.path(name)):
            os.unlink(daemon.path(name))
    if step == "epoch":
        os.unlink(daemon.path("state/epoch"))
    daemon.sections["metrics"]["listen"] = "127.0.0.1:0"
    daemon.sections["host_pool"]["bytes"] = "64MiB"
    daemon.start()
    with Engine(daemon.socket) as engine:
        assert eventually(lambda: set(engine.check_put(content.keys([1]))) <= {Status.OK,
                                                                              Status.EXISTS}, "put")


def threads(daemon):
    names = []
    for task in os.listdir(f"/proc/{daemon.pid}/task"):
        with open(f"/proc/{daemon.pid}/task/{task}/comm", encoding="ascii") as file:
            names.append(file.read().strip())
    return names


def listens(daemon):
    with open(f"/proc/{daemon.pid}/net/tcp", encoding="ascii") as file:
        open_ports = {line.split()[9] for line in file if line.split()[3] == "0A"}
    inodes = set()
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{daemon.pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        inodes |= {found.group(1)} if found else set()
    return bool(open_ports & inodes)


@pytest.mark.parametrize("copy, chunk, chunks, store, listen", [
    (1, "16MiB", 1, "file", ""), (3, "8MiB", 4, "none", "127.0.0.1:0")])
def test_an_option_has_the_effect_that_the_configuration_tells(
        start, copy, chunk, chunks, store, listen):
    """O6-10, O6-02: what the log calls configured is what runs."""
    size = int(chunk[:-3]) << 20
    daemon = start(copy={"threads": copy},
                   host_pool={"bytes": size * chunks, "chunk_bytes": chunk, "span_bytes": "4MiB"},
                   store={"kind": store, "segment_bytes": "4MiB"}, metrics={"listen": listen})
    names = threads(daemon)
    assert sum(name.startswith("kvs-copy") for name in names) == copy, names
    assert ("kvs-store" in names) == (store == "file"), names
    eventually(lambda: len(daemon.shm_files()) == chunks, "the chunks are in", pid=daemon.pid)
    assert {os.path.getsize(path) for path in daemon.shm_files()} == {size}
    assert listens(daemon) == bool(listen)
    assert re.search(r"\bconfigured file=%s\b.*\bcopy\.threads=%d\b" % (
        re.escape(daemon.path("kvsidecar.toml")), copy), daemon.log())


def test_o_direct_is_on_where_the_daemon_says_so(start):
    """O6-10: the flags of the open segment are those that are told."""
    daemon = start()
    with Engine(daemon.socket) as engine:
        assert engine.put(content.keys(range(4)), durable=True).result().succeeded == 4
    told = {name: value for name, _, value in samples(daemon)}["kvsidecar_store_direct"] == 1
    flags = []
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        try:
            target = os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
            with open(f"/proc/{daemon.pid}/fdinfo/{fd}", encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        if target.startswith(daemon.path("store")) and os.path.isfile(target) and \
                os.path.getsize(target) > 100_000:
            flags.append(int(re.search(r"^flags:\s+(\d+)", text, re.MULTILINE).group(1), 8))
    assert flags and {bool(flag & os.O_DIRECT) for flag in flags} == {told}


def test_a_lookup_counts_what_it_found_and_a_get_what_it_loaded(start):
    """O9-01: asked, found, loaded and missed are counters of their own. O6-12: a head page that is
    missing restores nothing, and the counters and `why` tell that the rest was there."""
    daemon = start()
    keys = content.keys(range(100))
    with Engine(daemon.socket, 100) as engine:
        assert engine.put(keys[60:]).result().succeeded == 40
        assert engine.lookup(keys).result().longest == 0
        assert engine.client.delete(engine.space, keys[98:], timeout=10).result().ok
        assert engine.check_get(keys[60:]).count(Status.OK) == 38
        now = accounts.status(daemon)["counters"]
        assert (now["pages_looked_up"], now["pages_found_host"], now["pages_found_miss"]) == (
            100, 40, 60)
        assert (now["pages_get"], now["pages_get_host"], now["pages_get_miss"]) == (40, 38, 2)
        assert engine.client.why(keys[0]).result().json()["answers"][0]["place"] == "miss"
        assert engine.client.why(keys[60]).result().json()["answers"][0]["place"] == "host"


def test_counters_stand_still_while_nothing_is_asked_and_begin_anew_with_the_daemon(start):
    """O9-02."""
    daemon = start()
    with Engine(daemon.socket) as engine:
        assert engine.put(content.keys(range(10)), durable=True).result().succeeded == 10
    eventually(lambda: counters(daemon)["kvsidecar_pages_put_total"] == 10, "it is scraped")
    eventually(lambda: accounts.status(daemon)["segments"]["bytes"] > 0, "it is written")
    first = counters(daemon)
    epoch = {name: value for name, _, value in samples(daemon)}["kvsidecar_epoch"]
    scrapes = [counters(daemon) for _ in range(20)]
    puts = [one["kvsidecar_pages_put_total"] for one in scrapes]
    assert set(puts) == {first["kvsidecar_pages_put_total"]}
    assert all(one[name] >= first[name] for one in scrapes for name in first)
    assert daemon.terminate() == 0
    daemon.start()
    daemon.baseline = None
    eventually(lambda: counters(daemon)["kvsidecar_pages_put_total"] == 0, "they begin at 0")
    assert {name: value for name, _, value in samples(daemon)}["kvsidecar_epoch"] > epoch


def test_every_series_is_there_from_the_beginning_once_and_without_labels(start):
    """O9-03, O9-06, O9-07, O9-09: before any traffic each counter of the status has its series; no
    scrape has one twice; no key, request or salt becomes a label, however many there are."""
    daemon = start()
    before = samples(daemon)
    names = [name for name, _, _ in before]
    assert len(set(names)) == len(names)
    told = accounts.status(daemon)["counters"]
    assert {f"kvsidecar_{name}_total" for name in told} <= set(names)
    for model in ("one", "two", "three"):
        space = fields(65536, model, tenant_salt=model)
        with Engine(daemon.socket, 200, namespace=space) as engine:
            engine.put(content.keys(range(200), model.encode())).result()
    after = samples(daemon)
    assert [name for name, _, _ in after] == names
    assert {labels for _, labels, _ in after} == {None}


def test_garbage_on_every_door_leaves_a_daemon_that_does_its_work(start):
    """O9-08: health is told by a daemon that still loads and stores."""
    daemon = start()
    port = daemon.told("metrics_port")
    for data in (b"\0" * 3000, b"GET " + b"x" * 20_000, os.urandom(5000)):
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(data[:8192])
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(daemon.socket)
            peer.sendall(data[:400])
        with RawPeer(daemon.socket) as peer:
            peer.socket.sendall(data[:300])
    assert daemon.http("/healthz") == (200, "ok\n")
    keys = content.keys(range(5))
    with Engine(daemon.socket) as engine:
        assert set(engine.check_put(keys)) == {Status.OK}
        assert engine.check_get(keys) == [Status.OK] * 5
    assert counters(daemon)["kvsidecar_sessions_opened_total"] >= 1
