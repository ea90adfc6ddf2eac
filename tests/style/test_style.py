# SPDX-License-Identifier: Apache-2.0
"""Goal: the tree keeps to the rules of the house, and each rule can catch a breach.

Method: rules.py over every file of the tree, and over one small bad file for each rule.
"""
import os
import re

import pytest

import rules

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def test_the_tree_keeps_to_the_rules():
    found = []
    for path in rules.walk(ROOT):
        with open(os.path.join(ROOT, path), "rb") as file:
            found += rules.complaints(path, file.read())
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("path, text, expected", [
    ("ipc/a.cc", SPDX + '#include "sidecar/env.h"\n', "ipc stands under both sides"),
    ("clients/cpp/a.cc", SPDX + '#include "sidecar/env.h"\n', "only through ipc"),
    ("sidecar/a.cc", SPDX + '#include "clients/cpp/a.h"\n', "its clients' code"),
    ("sidecar/device/host.cc", SPDX + "#include <cuda.h>\n", "CUDA headers belong"),
    ("sidecar/store/file.cc", SPDX + "#include <hf3fs_usrbio.h>\n", "USRBIO declarations"),
    ("sidecar/shell/a.cc", SPDX + "#include <hiredis/hiredis.h>\n", "Redis belongs"),
    ("sidecar/index/index.cc", SPDX + "#include <thread>\n", "know no threads"),
    ("sidecar/pool/host_pool.cc", SPDX + "#include <unistd.h>\n", "know no threads"),
    ("sidecar/a.cc", SPDX + "std::mutex lock;\n", "a mutex outside"),
    ("ipc/a.cc", SPDX + "std::atomic_thread_fence(std::memory_order_acquire);\n", "bare fence"),
    ("ipc/a.cc", "int a;\n", "SPDX"),
    ("ipc/a.cc", SPDX + "int a;\n" * 400, "401 lines"),
    ("ipc/a.h", SPDX + "int a;\n" * 150, "151 lines"),
    ("ipc/a.cc", SPDX + "int f() {\n" + "  a();\n" * 69 + "}\n", "a function of 71 lines"),
    ("ipc/a.cc", SPDX + "class A {\n  int f() {\n" + "  a();\n" * 69 + "  }\n};\n", "71 lines"),
    ("ipc/a.cc", SPDX + "namespace x {\nTEST(A, B) {\n" + "if (a) {\n}\n" * 35 + "}\n}\n",
     "72 lines"),
    ("clients/a.py", "#" + SPDX[2:] + "def f():\n" + "    a()\n" * 70, "71 lines"),
    ("ipc/a.cc", SPDX + "x" * 101 + "\n", "101 columns"),
    ("ipc/a.cc", SPDX + "\tint a;\n", "a tab"),
    ("ipc/a.cc", SPDX + "int a; \n", "space at the end"),
    ("ipc/a.cc", SPDX + "// TO" + "DO: more\n", "finish it"),
    ("README.md", "see /wo" + "rk/main\n", "a path of one machine"),
    ("tests/unit/a.cc", SPDX + "std::this_thread::sleep_for(1s);\n", "a sleep in a test"),
    ("ipc/MixedCase.cc", SPDX, "snake_case"),
])
def test_each_rule_catches_a_breach(path, text, expected):
    found = rules.complaints(path, text.encode())
    assert any(expected in line for line in found), found


@pytest.mark.parametrize("path, text", [
    ("sidecar/device/cuda_driver.cc", SPDX + "#include <cuda.h>\n"),
    ("ipc/a.cc", SPDX + "int f() {\n" + "  a();\n" * 68 + "}\n"),
    ("ipc/a.cc", SPDX + 'int f() { return g("{"); }  // {\n' + "int b;\n" * 80),
    ("sidecar/shell/metrics.cc", SPDX + "std::mutex lock;\n"),
    ("ipc/a.cc", SPDX + "std::atomic_thread_fence(std::memory_order_seq_cst);\n"),
    ("ipc/a.cc", SPDX + "int a[] = {\n" + "  1,\n" * 100 + "};\n"),
])
def test_what_is_allowed_passes(path, text):
    assert rules.complaints(path, text.encode()) == []


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md"])
def test_documents_name_files_that_exist(document):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        text = file.read()
    paths = set(rules.walk(ROOT))
    names = {os.path.basename(path) for path in paths}
    missing = []
    for named in re.findall(r"`(?:\./)?([\w/.-]+\.(?:cc|h|hpp|fbs|py|sh))`", text):
        if named not in (paths if "/" in named else names):
            missing.append(named)
    assert not missing
