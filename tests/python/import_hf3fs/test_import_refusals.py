# SPDX-License-Identifier: Apache-2.0
"""Goal: `kvsidecar import-hf3fs` leaves out every page that something speaks against, tells why,
and touches nothing when it can't be sure; what is wrong is named with its remedy.

Method: files written by hand (hf3fs_files.py) and spoiled, the built program, a real kvsidecard.
"""
import json
import os
import resource
import socket
import subprocess

import pytest

import kvsidecar
from daemon import Daemon, built
from hf3fs_files import (HALF_BYTES, SAVED_S, SHAPES, Table, fields_of, filled, hash_of, key_of,
                         read_pages)
from import_scene import run, silent_server, small  # noqa: F401 - fixtures

MLA = SHAPES["mla page_first"]
TIMEOUT_S = 120


def spoil(small, how):
    """Makes page 1 unusable; the reason with which it is left out."""
    keys, table = small.table.keys, small.table
    if how == "claimed twice":
        keys.append(["no page", keys[1][1]])
    elif how == "also free":
        table.free.append(keys[1][1])
    elif how == "past the end":
        keys[1][1] = table.records
    elif how == "below zero":
        keys[1][1] = -1
    elif how == "huge":
        keys[1][1] = 2 ** 64 - 1
    elif how == "twice":
        keys.append([hash_of(1), table.free.pop()])
    elif how == "zeros":
        keys[1][1] = table.free.pop()
    elif how == "another layout":
        keys[1][0] += "-k"


@pytest.mark.parametrize("how, reason", [
    ("claimed twice", "its index is claimed by two records"),
    ("also free", "its index is also free"),
    ("past the end", "its index is past the end of the data file"),
    ("below zero", "its index is past the end of the data file"),
    ("huge", "its index is past the end of the data file"),
    ("twice", "its key stands twice"),
    ("zeros", "its record is all zeros: it was never written"),
    ("another layout", "its record is of another layout than the namespace"),
])
def test_a_page_that_something_speaks_against_is_left_out(run, small, client, how, reason):
    spoil(small, how)
    small.backend.save()
    report = run(*small.arguments, expect=1)
    assert report["left_out"].pop(reason) == 1 and report["imported"] == 3
    assert report["left_out"] == ({"its key isn't that of a page in this pool": 1}
                                  if how == "claimed twice" else {})
    assert read_pages(client, small.space, MLA, range(4)) == [
        small.parts[0], None, small.parts[2], small.parts[3]]


@pytest.mark.parametrize("key", ["draft", hash_of(1)[:-1], hash_of(1).upper() + "x",
                                 hash_of(1) + "_indexer", "Z" * 64, ""])
def test_a_key_that_is_no_pages_is_left_out(run, small, key):
    small.table.keys[1][0] = key
    small.backend.save()
    assert run(*small.arguments, expect=1)["left_out"] == {
        "its key isn't that of a page in this pool": 1}


def test_half_a_page_is_left_out(run, client, tmp_path):
    shape = SHAPES["mha page_first"]
    backend, _ = filled(tmp_path, shape, 2, 1)
    backend.tables[0, "kv"].keys.pop()
    backend.save()
    space = client.attach(fields_of(shape))
    report = run(*backend.arguments(), "--namespace", space.namespace_id.hex(), expect=1)
    assert report["left_out"] == {"it has K or V, not both": 1} and report["imported"] == 1


def test_a_page_that_one_rank_lacks_is_left_out(run, client, tmp_path):
    shape = SHAPES["mha page_first"]
    backend, _ = filled(tmp_path, shape, 2, 2)
    del backend.tables[1, "kv"].keys[2:]
    backend.save()
    space = client.attach(fields_of(shape, 2))
    report = run(*backend.arguments(), "--namespace", space.namespace_id.hex(), expect=1)
    assert report["left_out"] == {"not all ranks have it": 1} and report["imported"] == 1


def test_data_newer_than_its_metadata_is_refused(run, small, client):
    os.utime(small.table.path, (SAVED_S + 1, SAVED_S + 1))
    assert "--accept-stale" in run(*small.arguments, expect=1)["error"]
    assert read_pages(client, small.space, MLA, range(4)) == [None] * 4
    assert run(*small.arguments, "--accept-stale")["imported"] == 4


def test_a_server_that_answers_is_refused(run, small):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        error = run(*small.arguments, "--accept-stale", server=url, expect=1)["error"]
    assert "a server answers" in error and "--server" in error


def test_without_an_option_the_servers_own_port_is_tried(run, small):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", 18000))
            server.listen()
        except OSError:
            pytest.skip("somebody else has port 18000")
        assert "127.0.0.1:18000" in run(*small.arguments, server=None, expect=1)["error"]


@pytest.mark.parametrize("records, words", [(31, "room for 31"), (33, "room for 33")])
def test_data_of_another_size_than_its_metadata_counts_is_refused(run, small, records, words):
    os.truncate(small.table.path, records * MLA.record_bytes)
    os.utime(small.table.path, (SAVED_S - 1, SAVED_S - 1))
    error = run(*small.arguments, expect=2)["error"]
    assert words in error and "counts 32" in error and "--accept-size" in error


def test_of_data_that_was_cut_what_is_whole_is_taken(run, small):
    cut = small.table.keys[0][1]  # the first index handed out is the last in the file
    os.truncate(small.table.path, cut * MLA.record_bytes + 1)
    os.utime(small.table.path, (SAVED_S - 1, SAVED_S - 1))
    report = run(*small.arguments, "--accept-size", expect=1)
    assert report["imported"] == 3
    assert report["left_out"] == {"its index is past the end of the data file": 1}


def test_a_namespace_of_another_page_size_is_refused(run, small, client):
    other = SHAPES["indexer"].__class__("page_first", "MLATokenToKVPoolHost", [HALF_BYTES * 2])
    space = client.attach(fields_of(other))
    error = run(*small.backend.arguments(), "--namespace", space.namespace_id.hex(),
                expect=2)["error"]
    assert "another size or layout" in error


@pytest.mark.parametrize("text", [
    "", "{", "[]", "7", "null", '"text"', "{}}", "[" * 100_000, '{"0:kv": [}', '{"0:kv": 7}',
    '{"kv": {}}', '{"-1:kv": {}}', '{"99999999999:kv": {}}', '{"0:kv": {"num_pages": "32"}}',
    '{"0:kv": {"free_pages": 3}}', '{"0:kv": {"free_pages": ["3"]}}',
    '{"0:kv": {"key_to_index": {"a": 1}}}', '{"0:kv": {"key_to_index": [["a"]]}}',
    '{"0:kv": {"key_to_index": [["a", 1, 2]]}}', '{"0:kv": {"key_to_index": [["a", 1.5]]}}',
    '{"0:kv": {"key_to_index": [["a", null]]}}', '{"0:kv": {"key_to_index": [[1, "a"]]}}',
    '{"0:kv": {"key_to_index": [[["a"], 1]]}}', '{"0:kv": {"key_to_index": ["a"]}}',
    '{"0:kv": {"x": ' + "[" * 50 + "]" * 50 + "}}",
    '{"0:kv": {"key_to_index": [["' + "a" * 5000 + '", 1]]}}', '{"0:kv": {"num_pages": '
    + "1" * 5000 + "}}", '{"0:kv": {}, "0:kv": {}}', '{"0:kv": {}, "0": {}}',
    '{"0:kv": {"key_to_index": [["\x00", 1]]}}', '{"0:kv": {"num_pages": 32}} x',
])
def test_text_that_is_no_metadata_is_named(run, small, client, text):
    small.backend.save(text)
    error = run(*small.arguments, expect=2)["error"]
    assert small.backend.metadata in error and "--persistence-path" in error
    assert read_pages(client, small.space, MLA, range(4)) == [None] * 4


def test_bytes_that_are_no_text_are_named(run, small):
    with open(small.backend.metadata, "wb") as file:
        file.write(b'{"0:kv": {"key_to_index": [["\xff\xfe", 1]]}}')
    os.utime(small.backend.metadata, (SAVED_S, SAVED_S))
    assert "isn't JSON at byte" in run(*small.arguments, expect=2)["error"]


def test_members_that_are_not_known_are_passed_over(run, small):
    table = dict(small.table.json(), version=[1, {"a": [None, True, 1.5, "x"]}], more=None)
    small.backend.save(json.dumps({"0:kv": table, "5:other": {"key_to_index": [["a", 1]]}}))
    report = run(*small.arguments)
    assert report["imported"] == 4 and report["tables_not_asked"] == 1


def test_many_keys_take_little_memory(run, small):
    count, limit = 1_000_000, 300 << 20
    small.table.keys = [[hash_of(number), number + 32] for number in range(count)]
    small.backend.save(json.dumps({"0:kv": small.table.json()}))
    report = run(*small.arguments, expect=1, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_AS, (limit, limit)))
    assert report["left_out"] == {"its index is past the end of the data file": count}


def changed(small, client, tmp_path, what):
    """Arguments that are wrong."""
    metadata, data, space = small.backend.metadata, small.table.path, small.id
    if what == "no metadata":
        metadata = str(tmp_path / "nothing.json")
    elif what == "metadata is a folder":
        metadata = str(tmp_path)
    elif what == "no data":
        data = str(tmp_path / "nothing.0.bin")
    elif what == "data without a rank":
        data = str(tmp_path / "data")
    elif what == "no such namespace":
        space = "00" * 16
    elif what == "short namespace":
        space = "a12dd"
    elif what == "data of another rank":
        data = Table(str(tmp_path / "hicache.3.bin"), MLA.record_bytes).path
        os.utime(data, (SAVED_S - 1, SAVED_S - 1))
    else:
        shape = SHAPES["mha page_first" if what == "pp" else "mla page_first"]
        fields = {
            "pp": lambda: fields_of(shape, pp_size=2),
            "unknown layout": lambda: fields_of(shape, layout="other"),
            "linker": lambda: fields_of(shape, layout="linker, by layer: 4096+4096"),
            "page_head": lambda: fields_of(shape, layout="page_head, MHATokenToKVPoolHost, layers"
                                           f" 0 3 3, segments 1x{shape.part_bytes}"),
            "layout and bytes differ": lambda: fields_of(
                shape, layout="page_first, MLATokenToKVPoolHost, segments 1x4096"),
            "side pool of K and V": lambda: fields_of(
                shape, pool="swa", layout="page_first, MHATokenToKVPoolHost, segments "
                f"2x{shape.part_bytes // 2}"),
        }[what]()
        space = client.attach(fields).namespace_id.hex()
    return ["--metadata", metadata, "--data", data, "--namespace", space]


@pytest.mark.parametrize("what, words", [
    ("no metadata", "nothing.json"),
    ("metadata is a folder", "isn't a regular file"),
    ("no data", "nothing.0.bin"),
    ("data without a rank", "RANK:POOL=PATH"),
    ("no such namespace", "kvsidecar ls"),
    ("short namespace", "--namespace a12dd isn't an id; give the 32 hex digits that `kvsidecar ls` "
                        "shows"),
    ("data of another rank", "add --data PREFIX.0.bin"),
    ("pp", "pipeline"),
    ("unknown layout", "HiCache"),
    ("linker", "isn't one that HiCache makes; name a namespace that an engine with "
               "kvsidecar.sglang.HiCache"),
    ("page_head", "none that HF3FS's records"),
    ("layout and bytes differ", "4096 bytes"),
    ("side pool of K and V", "could never store"),
])
def test_a_wrong_argument_is_named(run, small, client, tmp_path, what, words):
    error = run(*changed(small, client, tmp_path, what), expect=2)["error"]
    assert words in error


def test_a_namespace_of_one_engine_alone_is_refused(run, small, client):
    space = client.attach(fields_of(MLA), group=b"g" * 16, group_size=1, rank=0, detach=True)
    error = run(*small.backend.arguments(), "--namespace", space.namespace_id.hex(),
                expect=2)["error"]
    assert "one engine's alone" in error


def test_one_file_given_twice_is_refused(run, small, tmp_path):
    link = str(tmp_path / "other.1.bin")
    os.link(small.table.path, link)
    assert "give each once" in run(*small.arguments, "--data", link, expect=2)["error"]


def test_data_that_no_namespace_takes_is_refused(run, small):
    more = small.backend.table(0, "indexer", HALF_BYTES)
    small.backend.save()
    error = run(*small.arguments, "--data", more.path, expect=2)["error"]
    assert "no --namespace takes" in error


def test_a_table_without_its_data_is_refused(run, client, tmp_path):
    shape = SHAPES["mamba"]
    backend, _ = filled(tmp_path, shape, 1, 2)
    left = backend.tables[0, "mamba"]
    space = client.attach(fields_of(shape, 2))
    error = run("--metadata", backend.metadata, "--data", left.path, "--namespace",
                space.namespace_id.hex(), expect=2)["error"]
    assert "1:mamba" in error and "no --data" in error


def test_data_that_the_metadata_does_not_know_is_refused(run, small):
    small.backend.save('{"5:kv": {"num_pages": 32, "free_pages": [], "key_to_index": []}}')
    assert "no table 0:kv" in run(*small.arguments, expect=2)["error"]


@pytest.mark.parametrize("server", ["nonsense", "host.invalid:80", ":", "127.0.0.1:x"])
def test_a_server_that_is_no_address_is_named(run, small, server):
    assert "--server" in run(*small.arguments, server=server, expect=2)["error"]


def test_without_a_daemon_it_says_so(small, silent_server, tmp_path):
    done = subprocess.run(
        [built("kvsidecar"), "import-hf3fs", *small.arguments, "--server", silent_server,
         "--socket", str(tmp_path / "nobody.sock")], stderr=subprocess.PIPE, text=True,
        check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1 and "UNAVAILABLE" in done.stderr


def test_who_may_not_put_is_told_so(library, tmp_path, silent_server):
    reader = [{"uid": [os.getuid()], "permissions": ["read", "admin"]}]
    with Daemon(tmp_path / "closed", allow=reader) as closed, \
            kvsidecar.Client(closed.socket) as client:
        backend, _ = filled(tmp_path, MLA, 1, 1)
        space = client.attach(fields_of(MLA))
        done = subprocess.run(
            [built("kvsidecar"), "import-hf3fs", *backend.arguments(), "--namespace",
             space.namespace_id.hex(), "--server", silent_server, "--socket", closed.socket],
            stdout=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "put" in done.stdout and "verdict" in done.stdout


def test_the_report_reads_well(small, silent_server, daemon):
    done = subprocess.run(
        [built("kvsidecar"), "import-hf3fs", *small.arguments, "--server", silent_server,
         "--socket", daemon.socket], stdout=subprocess.PIPE, text=True, check=True,
        timeout=TIMEOUT_S)
    assert done.stdout.splitlines()[-1].split() == ["verdict", "complete"]
    assert f"kvsidecar clear {small.id}" in done.stdout


def test_a_page_of_which_other_bytes_come_back_is_removed(run, client, tmp_path):
    """One part of it was there already, of somebody who never put the other one."""
    shape = SHAPES["mla layer_first"]
    backend, _ = filled(tmp_path, shape, 2, 2)
    space = client.attach(fields_of(shape, 2))
    memory = client.create_memory(shape.part_bytes)
    layout = client.register_layout(
        1, [kvsidecar.Run(memory, 0, shape.part_bytes, shape.part_bytes)])
    put = client.put(space, [key_of(0)], layout, [0], coordinate=kvsidecar.Coordinate(0)).result()
    assert list(put.items) == [kvsidecar.Status.OK_PART]
    report = run(*backend.arguments(), "--namespace", space.namespace_id.hex(), expect=1)
    assert report["left_out"] == {"other bytes came back; it was removed": 1}
    assert report["imported"] == 1
    assert read_pages(client, space, shape, [0])[0] is None
