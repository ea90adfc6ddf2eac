# SPDX-License-Identifier: Apache-2.0
"""Goal: what the README shows works as it stands there.

Method: its C++ and Python blocks are taken out and run, each against a fresh daemon from the build
folder ($KVSIDECAR_BUILD).
"""
import os
import re
import subprocess
import sys

import pytest

from daemon import Daemon, built

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def snippet(language):
    """The README's only fenced block of that language."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        found = re.findall(rf"^```{language}\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"the README has {len(found)} blocks of {language}"
    return found[0]


@pytest.fixture
def running(tmp_path):
    with Daemon(tmp_path) as found:
        yield found


def run(command, running, **more):
    env = dict(os.environ, KVSIDECAR_SOCKET=running.socket, **more)
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True).stdout


@pytest.fixture
def cpp_program(tmp_path):
    source, program = tmp_path / "snippet.cc", tmp_path / "snippet"
    source.write_text(snippet("cpp"))
    library = os.path.dirname(built("libkvsidecar-client.so"))
    subprocess.run(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", source, "-o", program,
                    "-I", os.path.join(ROOT, "clients", "cpp"), "-L", library,
                    "-lkvsidecar-client", f"-Wl,-rpath,{library}"], check=True)
    return program


def test_the_cpp_snippet_runs(running, cpp_program):
    assert run([cpp_program], running).strip() == "2 pages back"


@pytest.mark.parametrize("permissions, reason", [(["read"], "put"), (["put"], "read")])
def test_the_cpp_snippet_says_why_it_gave_up(cpp_program, tmp_path, permissions, reason):
    with Daemon(tmp_path, permissions=permissions) as daemon:
        ended = subprocess.run([cpp_program], env=dict(os.environ, KVSIDECAR_SOCKET=daemon.socket),
                               stderr=subprocess.PIPE, check=False, text=True)
    assert ended.returncode == 1
    assert reason in ended.stderr


def test_the_python_snippet_runs(running, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(snippet("python"))
    output = run([sys.executable, script], running,
                 PYTHONPATH=os.path.join(ROOT, "clients", "python"),
                 KVSIDECAR_LIBRARY=built("libkvsidecar-client.so"))
    assert output.strip() == "2 pages back"


def test_the_config_table_names_every_key():
    keys = subprocess.run([built("kvsidecard"), "--print-default-config"], check=False,
                          stdout=subprocess.PIPE, text=True).stdout
    names = re.findall(r"^#? ?([a-z_]+) = ", keys, re.MULTILINE)
    assert names, "kvsidecard --print-default-config names no key"
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    assert [name for name in names if f"`{name}`" not in text] == []
