# SPDX-License-Identifier: Apache-2.0
"""Goal: a store on 3FS that can't be reached by USRBIO is told at the start, by name, with the
remedy: store.kind "usrbio" refuses to start then, "auto" goes on with "file"; and either says what
it chose and why.

Method: mini3fs with one thing wrong at a time, by its faults, by its user, or by what the daemon
sees of the machine; --check-config where nothing has to be opened.
"""
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import content
from daemon import built
from engine import Engine
from kvsidecar import Status
from mini3fs import OtherUsersMini3fs
from usrbio_node import BUILTIN, SHARED_BUILTIN, WITHOUT_SUBMIT, described, library, registered
from waiting import eventually

NOBODY = 65534
NOWHERE = "/nowhere/libhf3fs_api_shared.so"

# What is wrong: (fault and value, way, [store.usrbio], words of the sentence)
WRONG = {
    "no_library_is_found": (
        None, SHARED_BUILTIN, {"library": None},
        "library can't be loaded .*libhf3fs_api_shared.so.* or use the builtin client"),
    "library_without_a_symbol": (
        None, WITHOUT_SUBMIT, {},
        "has no function hf3fs_submit_ios: .* name that file, or use the builtin client"),
    "more_rings_than_allowed": (
        ("rings.max", 2), BUILTIN, {}, "no more memories or rings: its table .iov_limit"),
    "memory_that_may_not_be_mapped": (
        ("fuse.symlink", "EACCES"), BUILTIN, {},
        "could not map /dev/shm/kvsidecar.* its fuse daemon runs as neither root nor this user"),
    "memory_that_may_not_be_pinned": (
        ("iov.unpinned", "on"), BUILTIN, {},
        "can't use this process's memory: give it the same /dev/shm, and the right to pin"),
    "virtual_directory_without_permission": (
        ("fuse.opendir", "EACCES@2"), BUILTIN, {},
        "3fs-virt/iovs may not be opened by this user: let the fuse daemon mount with allow_other"),
    "registration_without_permission": (
        ("fuse.symlink", "EPERM"), BUILTIN, {}, "lets this user register nothing"),
    "something_else_that_says_it_is_3fs": (
        ("fuse.ioctl", "ENOTTY"), BUILTIN, {}, "doesn't answer as 3FS: mount 3FS .hf3fs_fuse."),
    "protocol_of_another_version": (
        ("ioctl.version", 2), BUILTIN, {},
        "ioctl version 2, the builtin client knows version 1: use the site's"),
}
each_wrong = pytest.mark.parametrize("fault, way, usrbio, words", WRONG.values(), ids=WRONG)


def serves(daemon):
    keys = content.keys(range(8))
    with Engine(daemon.socket) as engine:
        return eventually(lambda: set(engine.check_put(keys, durable=True, timeout=10)) <=
                          {Status.OK, Status.EXISTS}, "the pages are stored", pid=daemon.pid) and \
            set(engine.check_get(keys, timeout=10)) == {Status.OK}


def check_config(daemon):
    checked = subprocess.run(
        [built("kvsidecard"), "--config", daemon.write_config(make_store=False), "--check-config"],
        capture_output=True, text=True, timeout=60, check=False)
    return checked.returncode, checked.stdout + checked.stderr


def refused_with(daemon, words):
    daemon.spawn(make_store=False)
    assert daemon.wait() in (1, 2), daemon.log()
    assert re.search(words, daemon.log()), daemon.log()
    assert not os.path.exists(daemon.socket) and not daemon.shm_files()


@each_wrong
def test_usrbio_by_name_fails_at_the_start_with_the_reason(make_node, mini3fs, fault,
                                                           way, usrbio, words):
    daemon = make_node(way, usrbio=usrbio)
    if fault:
        mini3fs.set(*fault)
    refused_with(daemon, words)
    mini3fs.clear()
    assert registered(mini3fs) == []
    if way == BUILTIN:
        daemon.start()
        assert serves(daemon)


@each_wrong
def test_auto_goes_on_with_file_and_says_why(make_node, mini3fs, fault, way, usrbio, words):
    daemon = make_node(way, usrbio=usrbio, store={"kind": "auto"})
    if fault:
        mini3fs.set(*fault)
    daemon.start()
    daemon.log_has(r"store_kind kind=file text=.*not by USRBIO: .*" + words)
    assert re.search(r"^file \(.*not by USRBIO: .*" + words, described(daemon))
    mini3fs.clear()
    assert registered(mini3fs) == []
    assert serves(daemon)


def test_auto_on_3fs_takes_usrbio_and_says_why(make_node, mini3fs):
    daemon = make_node(store={"kind": "auto"}, usrbio={"client": "auto"}).start()
    daemon.log_has(r'store_kind kind=usrbio text="auto: store.root lies on 3FS"')
    daemon.log_has(r'store_client client=builtin text="auto: the 3FS library can\'t be loaded')
    assert described(daemon) == f"usrbio (builtin, {mini3fs.mount}; auto: store.root lies on 3FS)"
    assert serves(daemon)
    assert mini3fs.count("writes") > 0


def test_auto_takes_the_library_where_there_is_one(make_node, mini3fs):
    path = library(SHARED_BUILTIN)
    daemon = make_node(store={"kind": "auto"}, usrbio={
        "client": "auto", "library": os.path.dirname(path)}).start()
    assert described(daemon).startswith(f"usrbio (library {path}, {mini3fs.mount}; auto: ")
    assert serves(daemon)


def test_auto_off_3fs_takes_file_and_says_why(make_node, mini3fs, tmp_path):
    daemon = make_node(store={"kind": "auto", "root": str(tmp_path)}).start()
    daemon.log_has(r'store_kind kind=file text="auto: store.root lies on no 3FS mount"')
    assert described(daemon).startswith("file (")
    assert serves(daemon) and mini3fs.count("iovs") == 0


@pytest.mark.parametrize("kind", ["usrbio", "auto"])
def test_a_library_that_is_not_where_the_configuration_says_is_told(make_node, kind):
    daemon = make_node(usrbio={"client": "library", "library": NOWHERE}, store={"kind": kind})
    words = f'store.usrbio.library = "{NOWHERE}" .*name the library\'s file or its directory, or'
    code, text = check_config(daemon)
    assert code == 2 and re.search(words, text), text
    refused_with(daemon, words)


def test_a_root_off_3fs_is_told(make_node, tmp_path):
    daemon = make_node(store={"root": str(tmp_path)})
    words = f'store.root = "{tmp_path}" lies on no 3FS mount.* mount 3FS there, name a directory'
    code, text = check_config(daemon)
    assert code == 2 and re.search(words, text), text
    refused_with(daemon, words)


def test_a_mount_whose_daemon_has_died_is_told(make_node, mini3fs):
    daemon = make_node()
    mini3fs.kill()
    words = r'store.root = .* fuse daemon has died; unmount it .umount -l. and start it again'
    code, text = check_config(daemon)
    assert code == 2 and re.search(words, text), text
    refused_with(daemon, words)
    mini3fs.restart()
    daemon.start()
    assert serves(daemon)


def test_a_mount_that_hangs_is_told(make_node, mini3fs):
    daemon = make_node()
    mini3fs.pause()
    refused_with(daemon, "store.root = .* lies on a file system that does not answer; look after")
    mini3fs.resume()
    daemon.start()
    assert serves(daemon)


def test_a_right_configuration_is_told_to_be_right(make_node, mini3fs):
    assert check_config(make_node()) == (0, "the configuration is right\n")
    assert registered(mini3fs) == []


@pytest.fixture
def shm_of(make_node):
    """A daemon that sees a /dev/shm of its own, of so many MiB."""
    def make(mib, **settings):
        mount = f"mount -t tmpfs -o size={mib}m none /dev/shm"
        return make_node(wrapper=["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"],
                         host_pool={"bytes": "8MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"},
                         **settings)

    return make


def test_a_dev_shm_without_room_for_the_buffers_is_told(shm_of):
    refused_with(shm_of(12), r"the store's buffers /dev/shm/kvsidecar\..* find no room: .* make "
                             r"/dev/shm larger, or host_pool.bytes smaller")


def test_a_dev_shm_that_the_fuse_daemon_does_not_see_is_told(shm_of):
    refused_with(shm_of(64), "doesn't find /dev/shm/kvsidecar.* let its fuse daemon and this "
                             "process see the same /dev/shm")


@pytest.mark.parametrize("allow_other, words", [
    (False, "store.root = .* can't be looked at .Permission denied.; name another path, or let"),
    (True, "could not map /dev/shm/kvsidecar.* its fuse daemon runs as neither root nor this user"),
], ids=["closed", "open"])
def test_a_mount_of_another_user_is_told(make_node, make_daemon, mini3fs, allow_other, words):
    other = OtherUsersMini3fs(NOBODY, allow_other)
    try:
        other.start()
        os.mkdir(os.path.join(other.data, "node"))
        os.chown(os.path.join(other.data, "node"), NOBODY, NOBODY)
        refused_with(make_node(store={"root": os.path.join(other.mount, "node")}), words)
    finally:
        other.close()


@pytest.fixture
def open_folder():
    """A folder that another user may own: pytest's own are closed to others."""
    path = tempfile.mkdtemp(prefix="kvsidecar-test-")
    os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("way", [BUILTIN, SHARED_BUILTIN], ids=["builtin", "library"])
def test_a_daemon_with_a_user_of_its_own_works_on_roots_mount(make_node, mini3fs, open_folder, way):
    root = os.path.join(mini3fs.data, "own")
    os.mkdir(root)
    daemon = make_node(
        way, os.path.join(open_folder, "node"), store={"root": os.path.join(mini3fs.mount, "own")},
        wrapper=["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                 "--inh-caps=-all"],
        allow=[{"uid": [0, NOBODY], "permissions": ["read", "put", "admin"]}])
    daemon.write_config(make_store=False)
    for path in (root, daemon.folder, daemon.path("notify")):
        os.chown(path, NOBODY, NOBODY)
    daemon.start()
    assert described(daemon).startswith("usrbio (") and serves(daemon)
    assert mini3fs.count("writes") > 0
    assert daemon.terminate() == 0 and registered(mini3fs) == []
