# SPDX-License-Identifier: Apache-2.0
"""Goal: two daemons never share what only one may have, and a configuration that can't work ends
the start with the sentence that helps.

Method: a second daemon beside a first that is served all the while; configurations with one thing
wrong each. (Bug reports K6, O3-08.)
"""
import os
import re
import subprocess

import pytest

import content
from daemon import built
from engine import Engine
from kvsidecar import Status

EXIT_REFUSED, EXIT_USAGE = 1, 2


def start_fails(daemon, *words, code=EXIT_REFUSED):
    daemon.spawn()
    assert daemon.wait() == code, daemon.log()
    for word in words:
        assert word in daemon.log(), daemon.log()


def still_served(daemon):
    with Engine(daemon.socket) as engine:
        keys = content.keys([os.getpid()])
        assert set(engine.check_put(keys)) <= {Status.OK, Status.EXISTS}
        assert engine.check_get(keys) == [Status.OK]


def test_a_second_daemon_in_the_runtime_directory_is_refused_with_the_firsts_pid(
        start, make_daemon):
    first = start()
    second = make_daemon("second", daemon={"runtime_dir": first.path("run")})
    start_fails(second, "runtime_dir", f"(pid {first.pid})")
    assert first.running
    still_served(first)


def test_a_second_daemon_with_the_state_directory_is_refused(start, make_daemon):
    first = start()
    second = make_daemon("second", daemon={"state_dir": first.path("state")})
    start_fails(second, "state_dir")
    still_served(first)


def test_a_second_daemon_on_the_socket_is_refused(start, make_daemon):
    first = start()
    second = make_daemon("second", daemon={"socket": first.socket})
    start_fails(second, "daemon.socket")
    still_served(first)


def test_a_second_daemon_with_the_pools_name_is_refused_and_removes_nothing(start, make_daemon):
    first = start()
    first.log_has(r"chunks=2 planned=2")
    chunks = first.shm_files()
    assert len(chunks) == 2
    # Of this plan the first daemon's second chunk would be one too many.
    second = make_daemon("second", host_pool={"bytes": "32MiB", "name": first.pool})
    start_fails(second, f"kvsidecar.{first.pool}.", "host_pool.name")
    assert first.shm_files() == chunks
    still_served(first)


def test_two_nodes_with_one_store_root_have_folders_of_their_own(start, make_daemon):
    first = start()
    second = make_daemon("second", store={"root": first.path("store")}).start()
    keys = content.keys(range(8))
    with Engine(first.socket) as one, Engine(second.socket) as two:
        assert set(one.check_put(keys, durable=True, timeout=10)) == {Status.OK}
        assert set(two.check_put(keys, durable=True, timeout=10)) == {Status.OK}
        assert set(one.check_get(keys)) == {Status.OK}
        assert set(two.check_get(keys)) == {Status.OK}
    assert len([name for name in os.listdir(first.path("store"))
                if re.fullmatch(r"[0-9a-f]{32}\.0", name)]) == 2
    assert second.terminate() == 0
    still_served(first)


def test_a_copy_of_a_nodes_state_with_its_folder_is_refused(start, make_daemon):
    """A state directory that was copied to a second machine, or restored beside the first."""
    first = start()
    second = make_daemon("second", store={"root": first.path("store")})
    os.makedirs(second.path("state"))
    with open(first.path("state/node"), "rb") as file, open(second.path("state/node"), "wb") as to:
        to.write(file.read())
    start_fails(second, "store folder", f"pid {first.pid}")
    still_served(first)


def test_a_folder_that_belongs_to_another_node_is_refused(start, make_daemon):
    first = start()
    still_served(first)
    folder, = [name for name in os.listdir(first.path("store"))]
    assert first.terminate() == 0
    owner = first.path(f"store/{folder}/owner")
    with open(owner, encoding="ascii") as file:
        text = file.read()
    with open(owner, "w", encoding="ascii") as file:
        file.write(re.sub(r"node \w{32}", "node " + "ab" * 16, text))
    start_fails(first, "belongs to node " + "ab" * 16)


WRONG = [
    ("daemon", "log_levl", "info", "log_level"),
    ("daemon", "log_level", "loud", "log_level"),
    ("host_pool", "bytes", "63MiB", "chunk_bytes"),
    ("host_pool", "bytes", "900TiB", "host_pool.bytes"),
    ("host_pool", "bytes", -5, "host_pool.bytes"),
    ("host_pool", "bytes", "lots", "host_pool.bytes"),
    ("host_pool", "span_bytes", "3MiB", "span_bytes"),
    ("host_pool", "name", "Not/Good", "host_pool.name"),
    ("host_pool", "directory", "/nowhere/at/all", "/nowhere/at/all"),
    ("store", "kind", "usrbio", "store.kind"),
    ("store", "root", "/proc/nowhere", "/proc/nowhere"),
    ("store", "depth", 0, "store.depth"),
    ("store", "admission", "sometimes", "at_once"),
    ("limits", "leases_percent", 101, "leases_percent"),
    ("metrics", "listen", "nowhere", "metrics.listen"),
    ("copy", "threads", "many", "copy.threads"),
]


@pytest.mark.parametrize("section, key, value, words", WRONG,
                         ids=[f"{s}.{k}={v}" for s, k, v, _ in WRONG])
def test_a_wrong_configuration_ends_the_start_with_its_sentence(make_daemon, section, key, value,
                                                                words):
    daemon = make_daemon(**{section: {key: value}})
    start_fails(daemon, words, code=EXIT_USAGE)
    assert not daemon.shm_files()


def test_check_config_tells_the_same_without_starting(make_daemon):
    daemon = make_daemon(daemon={"log_levl": "info"})
    told = subprocess.run([built("kvsidecard"), "--config", daemon.write_config(),
                           "--check-config"], capture_output=True, text=True, check=False)
    assert told.returncode == EXIT_USAGE
    assert "log_levl" in told.stderr and "log_level" in told.stderr
    assert not os.path.exists(daemon.path("run"))


def test_a_configuration_that_is_not_there_is_named(make_daemon):
    daemon = make_daemon()
    told = subprocess.run([built("kvsidecard"), "--config", daemon.path("none.toml")],
                          capture_output=True, text=True, check=False)
    assert told.returncode == EXIT_USAGE and daemon.path("none.toml") in told.stderr


def test_a_metrics_port_in_use_is_named(start, make_daemon):
    first = start()
    port = first.told("metrics_port")
    second = make_daemon("second", metrics={"listen": f"127.0.0.1:{port}"})
    start_fails(second, f"127.0.0.1:{port}", code=EXIT_USAGE)
    assert not os.path.exists(second.socket)
