# SPDX-License-Identifier: Apache-2.0
"""Goal: a machine that gives too little (memory in the pool's directory, lockable memory, open
files) is told at the start or costs the request in question; never a crash, and never later.
(Bug reports O3-13, O3-15, O3-16, O3-17, O3-18, O3-23.)

Method: a small tmpfs as the pool's directory; the daemon under resource limits, as root and as
somebody else; more clients than there are descriptors, registrations without end.
"""
import ctypes
import os
import re
import shutil
import tempfile

import pytest

import accounts
import content
import kvsidecar
from daemon import proc_text
from engine import Engine, fields
from kvsidecar import Place, Status
from waiting import eventually

MIB = 1 << 20
NOBODY = 65534
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2
_libc = ctypes.CDLL(None, use_errno=True)
root_only = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture
def small_tmpfs(tmp_path):
    """Mounts one of so many MiB; its path."""
    made = []

    def mount(mib):
        path = str(tmp_path / f"shm{len(made)}")
        os.mkdir(path)
        if _libc.mount(b"none", path.encode(), b"tmpfs", 0, b"size=%dm" % mib) != 0:
            pytest.skip(f"no tmpfs can be mounted: {os.strerror(ctypes.get_errno())}")
        made.append(path)
        return path

    yield mount
    for path in made:
        _libc.umount2(path.encode(), MNT_DETACH)


def fill(path):
    """Takes all that is left of a file system."""
    facts = os.statvfs(path)
    with open(os.path.join(path, "filler"), "wb") as file:
        os.posix_fallocate(file.fileno(), 0, facts.f_bavail * facts.f_bsize)


def pool_in(path, mib, chunk=8):
    return {"directory": path, "bytes": f"{mib}MiB", "chunk_bytes": f"{chunk}MiB",
            "span_bytes": "2MiB"}


@root_only
def test_a_pool_that_its_directory_cannot_hold_is_refused_with_both_sizes(make_daemon, small_tmpfs):
    path = small_tmpfs(16)
    daemon = make_daemon(host_pool=pool_in(path, 32))
    daemon.spawn()
    assert daemon.wait() == 2
    for word in ("32 MiB", "16 MiB", path, "host_pool.bytes"):
        assert word in daemon.log(), daemon.log()
    assert os.listdir(path) == [] and not os.path.exists(daemon.socket)


@root_only
def test_a_pool_that_is_in_never_faults_however_full_its_directory_gets(small_tmpfs, start):
    path = small_tmpfs(48)
    daemon = start(host_pool=pool_in(path, 32), store={"kind": "none", "root": ""})
    fill(path)
    keys = content.keys(range(600))  # more than it holds: each byte of it is written
    with Engine(daemon.socket, 600) as engine:
        assert set(engine.check_put(keys, timeout=10)) <= {Status.OK, Status.BUSY}
        assert Status.OK in engine.check_get(keys, timeout=10)
    daemon.kill()
    daemon.start()  # adopts what is there: no room is needed for it
    daemon.baseline = accounts.take_baseline(daemon)
    with Engine(daemon.socket, 600) as engine:
        for first in range(0, 600, 200):
            assert Status.OK in engine.check_get(keys[first:first + 200], timeout=10)


def test_all_kinds_of_data_live_in_the_one_pool(start):
    daemon = start(host_pool={"bytes": "32MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"},
                   store={"kind": "none", "root": ""})
    kinds = {"kv": 65536, "mamba": 1 * MIB, "swa": 32768, "indexer": 4096, "draft": 16384}
    for kind, page_bytes in kinds.items():
        count = 24 * MIB // page_bytes  # three quarters of the pool, each
        with Engine(daemon.socket, count, page_bytes,
                    namespace=fields(page_bytes, pool=kind)) as engine:
            keys = content.keys(range(count))
            assert Status.OK in engine.check_put(keys, timeout=20), kind
            assert Status.OK in engine.check_get(keys, timeout=20), kind
        pool = accounts.status(daemon)["host_pool"]
        assert pool["bytes"] == 32 * MIB and pool["page_bytes"] <= 32 * MIB
    assert sum(os.stat(path).st_blocks * 512 for path in daemon.shm_files()) == 32 * MIB


@pytest.fixture
def open_folder():
    """A folder that another user may own: pytest's own are closed to others."""
    path = tempfile.mkdtemp(prefix="kvsidecar-test-")
    os.chmod(path, 0o755)
    os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


@root_only
@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("limit", ["65536", "1048576", None])
def test_little_lockable_memory_costs_speed_and_a_line_in_the_log(make_daemon, open_folder, limit,
                                                                  user):
    wrapper = ["prlimit", f"--memlock={limit}:{limit}"] if limit else []
    if user == "nobody":
        wrapper += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                    "--inh-caps=-all"]
    daemon = make_daemon(os.path.join(open_folder, "node"), wrapper=wrapper,
                         allow=[{"uid": [0, NOBODY], "permissions": ["read", "put", "admin"]}])
    daemon.write_config()
    for path in (daemon.folder, daemon.path("store"), daemon.path("notify")):
        os.chown(path, NOBODY, NOBODY)
    daemon.start()
    if user == "nobody" and limit:
        daemon.log_has("store_memlock .*RLIMIT_MEMLOCK")
    keys = content.keys(range(64))
    with Engine(daemon.socket, 64) as engine:
        eventually(lambda: engine.put(keys, durable=True, timeout=10).result().succeeded == 64 or
                   engine.lookup(keys).result().longest == 64, "the pages are in", pid=daemon.pid)
        assert set(engine.check_get(keys, timeout=10)) == {Status.OK}
    assert daemon.terminate() == 0
    daemon.forget_pool()
    daemon.start()
    with Engine(daemon.socket, 64) as engine:  # now through the store
        eventually(lambda: engine.lookup(keys).result().longest == 64, "they are found again",
                   pid=daemon.pid)
        eventually(lambda: set(engine.check_get(keys, timeout=10)) == {Status.OK}, "and loaded",
                   pid=daemon.pid)
    assert daemon.terminate() == 0


def test_more_clients_than_descriptors_are_refused_and_the_others_served(start):
    daemon = start(wrapper=["prlimit", "--nofile=256:256"], store={"segment_bytes": "4MiB"})
    keys = content.keys(range(200))
    with Engine(daemon.socket, 200) as witness:
        assert witness.put(keys, durable=True, timeout=20).result().succeeded == 200
        clients = []
        for number in range(200):
            try:
                clients.append(kvsidecar.Client(daemon.socket, connect_timeout=0.2))
            except kvsidecar.OpenFailed as refused:
                assert refused.status in (Status.UNAVAILABLE, Status.BUSY, Status.OVER_QUOTA,
                                          Status.TIMEOUT), refused
                break
        assert 8 < len(clients) < 200
        assert set(witness.check_get(keys, timeout=10)) == {Status.OK}
        assert all(client.stat(timeout=10).result().ok for client in clients)
        for client in clients:
            client.close()
        for number in range(200):
            with kvsidecar.Client(daemon.socket, connect_timeout=10) as client:
                assert number % 20 or client.stat(timeout=10).result().ok
        assert set(witness.check_get(keys, timeout=10)) == {Status.OK}


def resident(daemon):
    return int(re.search(r"^RssAnon:\s+(\d+) kB", proc_text(daemon.pid, "status"), re.M).group(1))


def test_registering_again_and_again_keeps_nothing(start):
    daemon = start()
    with kvsidecar.Client(daemon.socket) as client:
        def churn(times):
            for _ in range(times):
                memory = client.create_memory(MIB, timeout=10)
                assert memory.ok and memory.release(10) == Status.OK

        churn(200)
        before = resident(daemon)
        churn(2000)
        assert resident(daemon) < before + 1024, "RssAnon in KiB"
        assert len([line for line in proc_text(daemon.pid, "maps").splitlines()
                    if "kvsidecar-memory" in line]) == 0


def test_registering_until_it_is_refused_names_the_limit_and_harms_nobody(start):
    daemon = start(limits={"regions_per_session": 64})
    keys = content.keys(range(8))
    with Engine(daemon.socket) as other, kvsidecar.Client(daemon.socket) as client:
        made = [client.create_memory(4096, timeout=10) for _ in range(80)]
        refused = [memory for memory in made if not memory.ok]
        assert len(refused) == 80 - 64 and all("64" in memory.text for memory in refused), \
            refused[0].text
        assert set(other.check_put(keys)) == {Status.OK}
        assert other.lookup(keys).result().places.tolist() == [Place.HOST] * 8
        assert made[0].release(10) == Status.OK
        assert client.create_memory(4096, timeout=10).ok
