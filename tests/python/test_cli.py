# SPDX-License-Identifier: Apache-2.0
"""Goal: every command of `kvsidecar` answers, as text and as JSON, and fails with a reason.

Method: the built program against a real kvsidecard that holds known pages.
"""
import json
import os
import subprocess
import sys

import pytest

from kvsidecar import Status
from daemon import built
from scene import PAGE_BYTES, Engine, fields

TIMEOUT_S = 280


@pytest.fixture(scope="session")
def program():
    return built("kvsidecar")


@pytest.fixture
def engine(client):
    found = Engine(client, 8)
    assert found.put().result().succeeded == 8
    return found


@pytest.fixture
def run(program, daemon):
    def run_command(*arguments, socket=daemon.socket, expect=0):
        done = subprocess.run([program, *arguments, "--socket", socket], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout if expect == 0 else done.stdout + done.stderr
    return run_command


def test_status_shows_what_the_daemon_holds(run, engine):
    assert f"{8 * PAGE_BYTES // 1024}.0 KiB of 64.0 MiB" in run("status")
    status = json.loads(run("status", "--json"))
    assert status["counters"]["pages_put_stored"] == 8 and status["pid"] > 0


def test_top_shows_rates(run, engine):
    assert "looked up" in run("top", "--count", "1", "--interval", "100")
    lines = run("top", "--json", "--count", "2", "--interval", "100").splitlines()
    assert len(lines) == 2 and json.loads(lines[1])["rates"]["pages_put"] == 0


def test_why_knows_a_page_and_a_miss(run, engine):
    key = bytes(engine.keys[0]).hex()
    assert "complete and visible" in run("why", key)
    space = engine.namespace.namespace_id.hex()
    answer = json.loads(run("why", key, "--namespace", space, "--json"))["answers"][0]
    assert answer["place"] == "host" and answer["namespace"] == space
    assert "never seen here" in run("why", "00" * 16)


def test_ls_lists_namespaces_and_sessions(run, engine):
    space = engine.namespace.namespace_id.hex()
    assert space in run("ls") and "16.0 KiB" in run("ls")
    assert json.loads(run("ls", "--json"))["namespaces"][0]["pages_host"] == 8
    assert str(os.getpid()) in run("ls", "--sessions")
    assert len(json.loads(run("ls", "--sessions", "--json"))["sessions"]) == 2


def test_clear_starts_a_new_generation(run, engine, client):
    space = engine.namespace.namespace_id.hex()
    before = engine.namespace.generation
    assert json.loads(run("clear", space, "--json")) == {
        "namespace": space, "generation": before + 1}
    assert "generation " + str(before + 2) in run("clear", space)
    assert client.attach(fields()).generation == before + 2


def test_drain_lets_no_new_work_in(run, engine):
    assert "draining" in run("drain", "--wait")
    put = engine.client.put(engine.namespace, [b"k" * 16], engine.layout, [0]).result()
    assert put.status == Status.DRAINING or (put.items == Status.DRAINING).all()


def test_doctor_says_ok_or_how_to_mend(run, engine):
    checks = {check["check"]: check for check in json.loads(run("doctor", "--json"))}
    assert checks["socket"]["verdict"] == checks["session"]["verdict"] == "ok"
    assert all(check["remedy"] or check["verdict"] == "ok" for check in checks.values())
    assert {"shm size", "shm leftovers", "memlock", "io_uring", "store", "digest",
            "kernel"} <= checks.keys()
    assert run("doctor").startswith("ok    socket")


def test_doctor_finds_what_is_wrong_without_a_daemon(run, tmp_path):
    missing = str(tmp_path / "nobody.sock")
    assert "systemctl start kvsidecar" in run("doctor", socket=missing, expect=1)
    checks = {check["check"]: check for check in json.loads(
        run("doctor", "--json", "--store", str(tmp_path), socket=missing, expect=1))}
    assert checks["socket"]["verdict"] == "fail" and str(tmp_path) in checks["O_DIRECT"]["text"]


@pytest.mark.parametrize("arguments, word", [
    (["why", "abc"], "3 hex digits"),
    (["why", "zz"], "hex digits only"),
    (["clear", "00"], "an id has 32"),
    (["bench", "--only", "nothing of that name"], "--list"),
    (["bench", "--daemon", "/nowhere", "--only", "idle"], "/nowhere"),
    (["nonsense"], "nonsense"),
    ([], "doctor"),
    (["top", "--interval", "1"], "interval"),
    (["replay", "--daemon", "x"], "--config"),
])
def test_a_wrong_argument_is_named(run, arguments, word):
    assert word in run(*arguments, expect=2)


@pytest.mark.parametrize("command", ["status", "top", "ls", "drain"])
def test_without_a_daemon_a_command_says_so(run, command, tmp_path):
    missing = str(tmp_path / "nobody.sock")
    output = run(command, "--json", socket=missing, expect=1)
    assert "UNAVAILABLE" in output and missing in output or command == "top"


@pytest.mark.parametrize("command", ["status", "top", "why", "ls", "clear", "drain", "doctor",
                                     "replay", "bench"])
def test_every_command_takes_json_and_socket(program, command):
    text = subprocess.run([program, command, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=TIMEOUT_S).stdout
    assert "--json" in text and "--socket" in text


def test_bench_prints_a_figure_in_the_agreed_form(run):
    figures = json.loads(run("bench", "--json", "--only", "round trip, sleeping", "--rounds", "3",
                             "--daemon", built("kvsidecard")))
    assert len(figures) == 1 and figures[0]["value"] > 0 and figures[0]["floor"] > 0
    assert {"figure", "value", "unit", "floor", "ratio", "reach", "ok"} <= figures[0].keys()


def test_bench_names_its_figures(run):
    names = run("bench", "--list").splitlines()
    assert "get" in names and len(names) == len(set(names)) >= 14


def test_bench_measures_the_python_client_beside_the_same_floor(run):
    # O8-11: the Python client's own time for a batch of 512 is a figure of its own.
    names = run("bench", "--list", "--python").splitlines()
    assert "rivals' work from Python, client's own time" in names
    for task in ("lookup", "get of one page"):
        figures = json.loads(run(
            "bench", "--json", "--python=" + sys.executable, "--only", task, "--rounds", "3",
            "--daemon", built("kvsidecard")))
        assert [figure["figure"] for figure in figures] == [
            "rivals' work, " + task, "rivals' work from Python, " + task]
        assert all(figure["value"] > 0 and figure["floor"] > 0 for figure in figures)


def test_bench_says_why_an_interpreter_is_of_no_use(run):
    assert "PYTHONPATH" in run("bench", "--python=/bin/false", "--only", "lookup", "--rounds", "3",
                               "--daemon", built("kvsidecard"), expect=1)
