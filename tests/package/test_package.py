# SPDX-License-Identifier: Apache-2.0
"""Goal: deb and rpm hold all that they promise, and what they hold runs.

Method: both are built (or taken from $KVSIDECAR_PACKAGES) and unpacked into a root of their own;
daemon and replay run from there, and a program is built against the installed client.
"""
import glob
import json
import os
import shutil
import subprocess

import pytest

from daemon import Daemon

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATTERN = {"deb": "kvsidecar_*.deb", "rpm": "kvsidecar-*.rpm"}
LIBRARIES = {"deb": "usr/lib/*-linux-gnu", "rpm": "usr/lib64"}
PYTHON = {"deb": "usr/lib/python3/dist-packages", "rpm": "usr/share/kvsidecar/python"}
CONTENTS = [
    "usr/sbin/kvsidecard", "usr/bin/kvsidecar", "usr/include/kvsidecar/kvsidecar.h",
    "usr/include/kvsidecar/kvsidecar.hpp", "usr/lib/systemd/system/kvsidecar.service",
    "usr/lib/sysusers.d/kvsidecar.conf", "etc/kvsidecar/kvsidecar.toml",
    "usr/share/man/man8/kvsidecard.8*", "usr/share/man/man1/kvsidecar.1*",
    "usr/share/man/man5/kvsidecar.toml.5*", "usr/share/doc/*/README.md",
]
LIBRARY_CONTENTS = ["libkvsidecar-client.so", "libkvsidecar-client.so.*",
                    "pkgconfig/kvsidecar-client.pc",
                    "cmake/kvsidecar/kvsidecar-config.cmake"]

PROGRAM = '#include <kvsidecar.h>\nint main(void) { return kvs_version() == 0; }\n'


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    folder = os.environ.get("KVSIDECAR_PACKAGES")
    if not folder:
        folder = str(tmp_path_factory.mktemp("dist"))
        subprocess.run([os.path.join(ROOT, "packaging", "build-packages.sh"), folder], check=True)
    return folder


@pytest.fixture(scope="session", params=["deb", "rpm"])
def root(request, packages, tmp_path_factory):
    """(kind, the folder that the package was unpacked into)."""
    kind = request.param
    found = glob.glob(os.path.join(packages, PATTERN[kind]))
    assert len(found) == 1, found
    folder = tmp_path_factory.mktemp(kind)
    if kind == "deb":
        subprocess.run(["dpkg-deb", "-x", found[0], folder], check=True)
    else:
        archive = subprocess.run(["rpm2cpio", found[0]], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["cpio", "-idm", "--quiet"], input=archive, cwd=folder, check=True)
    return kind, str(folder)


def library_folder(kind, folder):
    found = glob.glob(os.path.join(folder, LIBRARIES[kind]))
    assert len(found) == 1, found
    return found[0]


def test_a_package_holds_what_it_promises(root):
    kind, folder = root
    wanted = [os.path.join(folder, path) for path in CONTENTS]
    wanted += [os.path.join(library_folder(kind, folder), path) for path in LIBRARY_CONTENTS]
    wanted += [os.path.join(folder, PYTHON[kind], "kvsidecar", name)
               for name in ("__init__.py", "py.typed")]
    missing = [path for path in wanted if not glob.glob(path)]
    assert not missing


def test_daemon_and_replay_run_from_an_unpacked_package(root, tmp_path):
    kind, folder = root
    daemon = Daemon(tmp_path)
    config = daemon.write_config()
    env = dict(os.environ, LD_LIBRARY_PATH=library_folder(kind, folder))
    program = os.path.join(folder, "usr/sbin/kvsidecard")
    try:
        subprocess.run([program, "--config", config, "--check-config"], env=env, check=True)
        replay = subprocess.run(
            [os.path.join(folder, "usr/bin/kvsidecar"), "replay", "--daemon", program, "--config",
             config, "--socket", daemon.socket, "--requests", "400",
             "--page-bytes", "4096", "--json"], env=env, stdout=subprocess.PIPE, check=False)
    finally:
        daemon.remove()
    report = json.loads(replay.stdout)
    assert replay.returncode == 0, report
    assert report["bytes_wrong"] == 0 and report["failed_requests"] == 0
    assert report["restarted"] and report["after_restart_hits"] > 0
    hits = report["pages_host"] + report["pages_store"] + report["pages_remote"]
    assert report["pages_looked_up"] == hits + report["pages_missed"]


def test_a_program_is_built_against_the_installed_client(root, tmp_path):
    kind, folder = root
    libraries = library_folder(kind, folder)
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(libraries, "pkgconfig"),
               PKG_CONFIG_SYSROOT_DIR=folder)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kvsidecar-client"], env=env,
                           check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    # The linker looks for nothing outside the unpacked root: -L comes from pkg-config.
    subprocess.run(["cc", str(source), "-o", str(tmp_path / "program"), *flags], check=True)
    subprocess.run([str(tmp_path / "program")], check=True,
                   env=dict(os.environ, LD_LIBRARY_PATH=libraries))


def test_cmake_finds_the_installed_client(root, tmp_path):
    kind, folder = root
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(program C)\n"
        "find_package(kvsidecar 0.1 REQUIRED)\nadd_executable(program program.c)\n"
        "target_link_libraries(program kvsidecar::client)\n")
    config = os.path.join(library_folder(kind, folder), "cmake", "kvsidecar")
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build",
                    f"-Dkvsidecar_DIR={config}"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", tmp_path / "build"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tmp_path / "build" / "program"], check=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_is_hardened():
    unit = os.path.join(ROOT, "packaging", "common", "kvsidecar.service")
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=25", unit],
                   check=True, stdout=subprocess.DEVNULL)
