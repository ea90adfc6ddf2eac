# SPDX-License-Identifier: Apache-2.0
"""Goal: `kvsidecar import-hf3fs` brings the pages of a stopped HF3FS backend in, byte for byte,
says where they came from, goes on after its end, and one clear removes them.

Method: files written by hand (hf3fs_files.py), the built program, a real kvsidecard; what it has
taken is read back by the Python client.
"""
import json
import os
import signal
import subprocess

import pytest

from daemon import built, die_with_parent
from hf3fs_files import (SAVED_S, SHAPES, Backend, fields_of, filled, hash_of, key_of,
                         put_own_page, random_bytes, read_pages)
from import_scene import run, silent_server, small, tell  # noqa: F401 - fixtures
from waiting import eventually

MLA = SHAPES["mla page_first"]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "mamba"])
def test_pages_come_back_byte_for_byte(run, client, tmp_path, name, ranks):
    shape = SHAPES[name]
    backend, parts = filled(tmp_path, shape, 5, ranks)
    space = client.attach(fields_of(shape, ranks))
    report = run(*backend.arguments(), "--namespace", space.namespace_id.hex())
    assert (report["imported"], report["left_out"]) == (5, {}) and report["verdict"] == "complete"
    for rank in range(ranks):
        assert read_pages(client, space, shape, range(5), rank) == [
            parts[rank, number] for number in range(5)]


def test_several_pools_are_imported_at_once(run, client, tmp_path):
    backend, ids, spaces = Backend(tmp_path), [], []
    shapes = [MLA, SHAPES["indexer"]]
    for shape in shapes:
        table = backend.table(0, shape.pool, shape.record_bytes)
        shape.write(table, 1, random_bytes(shape.part_bytes, 3), "" if shape is MLA else "_indexer")
        spaces.append(client.attach(fields_of(shape)))
        ids += ["--namespace", spaces[-1].namespace_id.hex()]
    backend.save()
    assert run(*backend.arguments(), *ids)["imported"] == 2
    for shape, space in zip(shapes, spaces):
        assert read_pages(client, space, shape, [1]) == [random_bytes(shape.part_bytes, 3)]


def test_states_that_all_ranks_keep_in_one_file_are_told_apart_by_their_keys(
        run, client, tmp_path):
    shape = SHAPES["mamba"]
    backend = Backend(tmp_path)
    table = backend.table(0, "mamba", shape.record_bytes)
    for rank in (0, 1):
        shape.write(table, 9, random_bytes(shape.part_bytes, rank), f"_mamba_{rank}_2")
    shape.write(table, 8, random_bytes(shape.part_bytes, 5), "_mamba_0_4")
    backend.save()
    space = client.attach(fields_of(shape, 2))
    report = run(*backend.arguments(), "--namespace", space.namespace_id.hex(), expect=1)
    assert report["left_out"] == {"its key is of a rank that the namespace hasn't": 1}
    for rank in (0, 1):
        assert read_pages(client, space, shape, [9], rank) == [random_bytes(shape.part_bytes, rank)]


def test_a_metadata_file_without_pools_is_of_the_pool_kv(run, small):
    small.backend.save(old=True)
    assert run(*small.arguments)["imported"] == 4


def test_data_under_another_name_is_taken_when_rank_and_pool_are_given(run, small, tmp_path):
    moved = str(tmp_path / "moved")
    os.rename(small.table.path, moved)
    assert run("--metadata", small.backend.metadata, "--data", f"0:kv={moved}", "--namespace",
               small.id)["imported"] == 4


def test_why_says_where_a_page_came_from(run, small, tell):
    run(*small.arguments)
    index = small.table.keys[2][1]
    assert f"HF3FS record {index} of hicache.0.bin" in tell("why", hash_of(2))
    answer = json.loads(tell("why", hash_of(2), "--json"))["answers"][0]
    assert answer["imported"] is True and answer["place"] == "host"


def test_a_page_of_an_engine_is_not_told_as_imported(small, client, tell):
    put_own_page(client, small.space, 77)
    answer = json.loads(tell("why", hash_of(77), "--json"))["answers"][0]
    assert answer["imported"] is False and "imported" not in tell("why", hash_of(77))


def test_imported_pages_are_told_apart_after_a_restart_from_the_store(small, run, daemon, tell):
    run(*small.arguments)
    daemon.terminate()
    daemon.forget_pool()
    daemon.start()
    assert json.loads(tell("ls", "--json"))["namespaces"][0]["pages_host"] == 0
    assert run(*small.arguments)["there_already"] == 4  # and none is taken for an engine's
    words = f"HF3FS record {small.table.keys[0][1]} of hicache.0.bin"
    eventually(lambda: words in tell("why", hash_of(0)), "the page is read and tells its origin")


def test_imported_pages_are_told_apart_after_a_restart_with_the_pool(small, run, daemon, tell):
    run(*small.arguments)
    daemon.terminate()
    daemon.start()
    assert "HF3FS record" in tell("why", hash_of(0))


def test_a_generation_that_holds_an_engines_pages_is_left_alone(run, small, client):
    put_own_page(client, small.space, 77)
    refused = run(*small.arguments, expect=1)
    assert "--beside" in refused["error"] and "kvsidecar clear" in refused["error"]
    assert read_pages(client, small.space, MLA, range(4)) == [None] * 4
    assert run(*small.arguments, "--beside")["imported"] == 4


def test_one_clear_removes_what_was_imported_and_makes_room_for_another_import(
        run, small, client, tell):
    put_own_page(client, small.space, 77)
    tell("clear", small.id)
    assert run(*small.arguments)["namespaces"][0]["generation"] == 2
    space = client.attach(fields_of(MLA))
    assert read_pages(client, space, MLA, range(4)) == small.parts
    tell("clear", small.id)
    assert read_pages(client, client.attach(fields_of(MLA)), MLA, range(4)) == [None] * 4


def test_a_second_run_reads_nothing_again(run, small):
    assert run(*small.arguments)["imported"] == 4
    with open(small.table.path, "r+b") as file:
        file.truncate(0)  # whoever read it now would find nothing
    os.utime(small.table.path, (SAVED_S - 1, SAVED_S - 1))
    report = run(*small.arguments, "--accept-size", expect=1)
    assert report["left_out"] == {"its index is past the end of the data file": 4}
    small.table.keys, small.table.free = [], []
    for number, part in enumerate(small.parts):
        small.table.keys.append([hash_of(number), number])
    with open(small.table.path, "r+b") as file:
        file.truncate(small.table.records * MLA.record_bytes)  # zeros: never written
    small.backend.save()
    report = run(*small.arguments)
    assert (report["there_already"], report["imported"], report["left_out"]) == (4, 0, {})


def test_it_goes_on_after_sigkill(library, daemon, client, tmp_path, run, silent_server):
    shape, pages = MLA, 3000
    backend = Backend(tmp_path)
    table = backend.table(0, "kv", shape.record_bytes, records=pages)
    for number in range(pages):
        shape.write(table, number, random_bytes(shape.part_bytes, number))
    backend.save()
    space = client.attach(fields_of(shape))
    arguments = [*backend.arguments(), "--namespace", space.namespace_id.hex()]
    first = subprocess.Popen(
        [built("kvsidecar"), "import-hf3fs", *arguments, "--socket", daemon.socket, "--server",
         silent_server], stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    eventually(lambda: client.lookup([key_of(0)], [space]).result().longest, "a page is there")
    first.send_signal(signal.SIGKILL)
    assert first.wait(20) in (-signal.SIGKILL, 0)
    report = run(*arguments)
    assert report["complete"] and report["there_already"] >= 1
    assert report["there_already"] + report["imported"] == pages
    some = list(range(0, pages, 97))
    assert read_pages(client, space, shape, some) == [
        random_bytes(shape.part_bytes, number) for number in some]
