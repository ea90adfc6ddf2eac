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
from daemon import Daemon, built, die_with_parent
from scene import PAGE_BYTES, Engine, fields
from waiting import readable

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


def test_status_and_top_count_the_writes_that_were_dropped(run, engine):
    assert "  writes dropped      0 pages\n" in run("status")
    assert "writes dropped        0 /s\n" in run("top", "--interval", "100")


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


def test_why_tells_who_has_a_page_and_counts_those_that_dont(run, engine, client):
    others = [client.attach(fields(layout=f"other {number}")) for number in range(3)]
    text = run("why", bytes(engine.keys[0]).hex())
    assert text.startswith("namespace") and engine.namespace.namespace_id.hex() in text
    assert "3: miss, never seen here" in text.splitlines()[-1]
    assert not any(other.namespace_id.hex() in text for other in others)


def test_ls_lists_namespaces_and_sessions(run, engine):
    space = engine.namespace.namespace_id.hex()
    assert space in run("ls") and "16.0 KiB" in run("ls")
    assert json.loads(run("ls", "--json"))["namespaces"][0]["pages_host"] == 8
    assert str(os.getpid()) in run("ls", "--sessions")
    assert len(json.loads(run("ls", "--sessions", "--json"))["sessions"]) == 2


def test_ls_tells_namespaces_of_one_model_apart(run, engine, client):
    client.attach(fields(layout="other"))
    text = run("ls")
    assert "revision" in text and "r1" in text
    assert "layout=flat" in text and "layout=other" in text and "quantization" not in text
    client.attach(fields(layout="page_first, of words"))
    assert 'layout="page_first, of words"' in run("ls")


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
    assert checks["host pool"]["verdict"] == checks["store writes"]["verdict"] == "ok"
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
    assert "UNAVAILABLE" in output and missing in output


@pytest.mark.parametrize("command", ["status", "top", "ls", "drain"])
def test_a_user_who_may_not_attach_is_told_so(run, tmp_path, command):
    stranger = [{"uid": [os.getuid() + 1], "permissions": ["read"]}]
    with Daemon(tmp_path / "closed", allow=stranger) as closed:
        assert "[[allow]]" in run(command, socket=closed.socket, expect=1)


def read_until(terminal, words):
    text = b""
    while words not in text:
        assert readable([terminal]), text
        text += os.read(terminal, 4096)


def test_top_on_a_terminal_finds_the_next_daemon(program, daemon):
    terminal, end = os.openpty()
    with subprocess.Popen(
            [program, "top", "--interval", "100", "--socket", daemon.socket], stdin=end, stdout=end,
            preexec_fn=die_with_parent) as top:
        os.close(end)
        read_until(terminal, b"q ends it")
        daemon.kill()
        read_until(terminal, b"no daemon at the moment")
        daemon.start()
        read_until(terminal, b"q ends it")
        os.write(terminal, b"q")
        assert top.wait(TIMEOUT_S) == 0
    os.close(terminal)


def replay_that_fails(run, daemon):
    """The lines that say why, and the report."""
    small = ["replay", "--requests", "20", "--page-bytes", "4096"]
    text = run(*small, socket=daemon.socket, expect=1)
    report = run(*small, "--json", socket=daemon.socket, expect=1)
    return text.splitlines(), json.JSONDecoder().raw_decode(report)[0]


def check_replay_names(cause, lines, report):
    assert len([line for line in lines if f"put {cause}: " in line]) == 1, lines
    assert f"FAILED: no page could be put: put {cause}" in lines[-1], lines
    assert report["pages_put_refused"] == report["pages_looked_up"] > 100
    assert report["causes"] == [
        {"request": "put", "status": cause, "count": report["pages_put_refused"]}]
    assert report["passed"] is False and report["verdict"] in lines[-1]


def test_a_replay_says_once_that_the_daemon_drains(run, daemon):
    run("drain")
    check_replay_names("DRAINING", *replay_that_fails(run, daemon))


def test_a_replay_says_once_that_it_may_not_put(run, tmp_path):
    with Daemon(tmp_path / "read-only", permissions=["read"]) as read_only:
        check_replay_names("DENIED", *replay_that_fails(run, read_only))


def test_a_replay_finds_nothing_of_an_earlier_one(run, daemon):
    small = ["replay", "--requests", "100", "--page-bytes", "4096"]
    assert run(*small).splitlines()[-1].startswith("PASSED: ")
    report = json.loads(run(*small, "--json"))
    hits = report["pages_host"] + report["pages_store"]
    assert 0 < hits <= report["best_total_hits"], report
    assert report["passed"] is True and report["verdict"].startswith("PASSED: ")


def test_a_replay_asks_its_daemon_for_the_socket(program, daemon):
    assert daemon.terminate() == 0
    done = subprocess.run(
        [program, "replay", "--daemon", built("kvsidecard"), "--config", daemon.write_config(),
         "--requests", "400", "--page-bytes", "4096"],
        stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_S)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("PASSED: ") and "daemon killed, back after " in last


def test_a_replay_whose_configuration_is_wrong_says_which(program, tmp_path):
    config = tmp_path / "kvsidecar.toml"
    config.write_text("[daemon]\nsockets = 1\n")
    done = subprocess.run(
        [program, "replay", "--daemon", built("kvsidecard"), "--config", str(config)],
        stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 2 and str(config) in done.stderr and "--socket" in done.stderr


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
