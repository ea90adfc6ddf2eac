# SPDX-License-Identifier: Apache-2.0
"""Goal: a page made under one adapter's weights is never found under another's, whatever name,
number or path vLLM knows them by, and nobody waits for files.

Method: folders with adapter files; the thread's work is waited for through its queue. Covers O1-05,
O1-06.
"""
import os
import threading

import pytest

from kvsidecar.vllm import adapters
from kvsidecar.vllm.adapters import PENDING, UNCLEAR, USABLE, Adapters, fold
from vllm_fakes import lora

HASHES = [bytes([i]) * 32 for i in range(3)]


def write(folder, weights=b"weights", config=b"{}"):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_bytes(config)
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return str(folder)


@pytest.fixture
def known():
    said = []
    found = Adapters(said.append)
    found.said = said
    yield found
    found.close()


def settled(known, request):
    """What is said of a request's adapter once its files have been looked at."""
    known.prepare(request)
    known._work.join()
    return known.content_id(request)


def test_a_request_without_an_adapter_needs_no_thread(known):
    known.prepare(None)
    assert known.content_id(None) == (USABLE, b"") and known._thread is None
    assert fold(HASHES, b"") is HASHES


def test_the_same_files_are_the_same_adapter_under_any_name_number_and_path(known, tmp_path):
    one, two = write(tmp_path / "one"), write(tmp_path / "two")
    first = settled(known, lora(1, "a", one))
    assert first[0] == USABLE and len(first[1]) == 16
    assert settled(known, lora(2, "b", two)) == first
    other = Adapters()  # after a restart, loaded in another order
    assert settled(other, lora(7, "c", two)) == first
    other.close()


@pytest.mark.parametrize("change", [
    dict(weights=b"Weights"), dict(weights=b"weights\0"), dict(config=b"{ }")])
def test_another_byte_in_any_file_is_another_adapter(known, tmp_path, change):
    before = settled(known, lora(1, "a", write(tmp_path / "a")))
    after = settled(known, lora(2, "a", write(tmp_path / "b", **change)))
    assert before[0] == after[0] == USABLE and before[1] != after[1]


def test_the_same_adapter_applied_otherwise_is_another(tmp_path):
    found = []
    for choices in (b"", b"a", b"b", b"a"):
        known = Adapters(choices=choices)
        found.append(settled(known, lora(1, "a", write(tmp_path / "a"))))
        known.close()
    assert found[1] == found[3] and {len(content_id) for _, content_id in found} == {16}
    assert len(set(found)) == 3


def test_bytes_that_move_from_one_file_to_its_neighbour_are_another_adapter(known, tmp_path):
    before = settled(known, lora(1, "a", write(tmp_path / "a", weights=b"xy", config=b"z")))
    after = settled(known, lora(2, "a", write(tmp_path / "b", weights=b"y", config=b"zx")))
    assert before[1] != after[1]


def test_what_else_lies_in_the_folder_is_not_read(known, tmp_path):
    before = settled(known, lora(1, "a", write(tmp_path / "a")))
    path = write(tmp_path / "b")
    os.mkfifo(tmp_path / "b" / "fifo.json")
    (tmp_path / "b" / "README.md").write_text("words")
    write(tmp_path / "b" / "checkpoint-500", weights=b"older")
    assert settled(known, lora(2, "a", path)) == before


def test_files_that_change_make_an_adapter_unclear_for_good(known, tmp_path):
    path = write(tmp_path / "a")
    assert settled(known, lora(1, "a", path))[0] == USABLE
    write(tmp_path / "a", weights=b"others!")
    assert settled(known, lora(1, "a", path)) == (UNCLEAR, None)
    write(tmp_path / "a")
    assert settled(known, lora(1, "a", path)) == (UNCLEAR, None)  # vLLM may have seen either
    assert len(known.said) == 1 and "under a name of its own" in known.said[0]
    assert settled(known, lora(2, "a again", path))[0] == USABLE


def test_weights_of_the_same_size_with_their_times_put_back_are_noticed(known, tmp_path):
    path = write(tmp_path / "a")
    file = tmp_path / "a" / "adapter_model.safetensors"
    at = file.stat()
    assert settled(known, lora(1, "a", path))[0] == USABLE
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert settled(known, lora(1, "a", path))[0] == UNCLEAR


def test_files_that_change_while_they_are_read_make_it_unclear(known, tmp_path, monkeypatch):
    path = write(tmp_path / "a")
    read = adapters.content_of

    def content_of(folder, stamp):
        found = read(folder, stamp)
        write(tmp_path / "a", weights=b"longer weights")
        return found

    monkeypatch.setattr(adapters, "content_of", content_of)
    assert settled(known, lora(1, "a", path))[0] == UNCLEAR


@pytest.mark.parametrize("missing", ["nowhere", "org/not-in-the-cache"])
def test_an_adapter_whose_files_are_nowhere_is_unclear(known, tmp_path, missing, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert settled(known, lora(1, "a", missing))[0] == UNCLEAR
    assert "missing or have changed" in known.said[0]


def test_an_empty_folder_is_unclear(known, tmp_path):
    assert settled(known, lora(1, "a", str(tmp_path)))[0] == UNCLEAR


def test_weights_replaced_in_place_are_unclear_from_then_on(known, tmp_path):
    path = write(tmp_path / "a")
    assert settled(known, lora(1, "a", path))[0] == USABLE
    assert settled(known, lora(1, "a", path, load_inplace=True))[0] == UNCLEAR
    assert settled(known, lora(1, "a", path))[0] == UNCLEAR


def test_two_adapters_under_one_number_are_unclear(known, tmp_path):
    one, two = write(tmp_path / "one"), write(tmp_path / "two", weights=b"others!")
    assert settled(known, lora(1, "a", one))[0] == USABLE
    assert settled(known, lora(1, "a", two))[0] == UNCLEAR
    assert settled(known, lora(1, "a", one))[0] == UNCLEAR


def test_nobody_waits_for_files(known, tmp_path, monkeypatch):
    go, read = threading.Event(), adapters.content_of

    def content_of(folder, stamp):
        assert go.wait(60)
        return read(folder, stamp)

    monkeypatch.setattr(adapters, "content_of", content_of)
    request = lora(1, "a", write(tmp_path / "a"))
    known.prepare(request)
    assert known.content_id(request) == (PENDING, None)
    go.set()
    known._work.join()
    assert known.content_id(request)[0] == USABLE


def test_each_arrival_has_the_files_looked_at_again_before_they_count(known, tmp_path, monkeypatch):
    request = lora(1, "a", write(tmp_path / "a"))
    assert settled(known, request)[0] == USABLE
    go, look = threading.Event(), adapters.stamp_of

    def stamp_of(folder):
        assert go.wait(60)
        return look(folder)

    monkeypatch.setattr(adapters, "stamp_of", stamp_of)
    known.prepare(request)
    assert known.content_id(request) == (PENDING, None)
    go.set()
    known._work.join()
    assert known.content_id(request)[0] == USABLE


def test_a_full_queue_leaves_an_adapter_pending_until_a_later_arrival(known, tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "WAITING_MAX", 1)
    small, go, find = Adapters(), threading.Event(), adapters.find_folder

    def find_folder(path):
        assert go.wait(60)
        return find(path)

    monkeypatch.setattr(adapters, "find_folder", find_folder)
    requests = [lora(i, "a", write(tmp_path / "a")) for i in range(1, 5)]
    for request in requests:
        small.prepare(request)
    assert {small.content_id(request)[0] for request in requests} == {PENDING}
    go.set()
    small._work.join()
    assert small.content_id(requests[0])[0] == USABLE
    assert small.content_id(requests[-1])[0] == PENDING
    assert settled(small, requests[-1])[0] == USABLE
    small.close()


def test_what_is_kept_of_adapters_is_bounded(known, tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "ADAPTERS_MAX", 3)
    path = write(tmp_path / "a")
    for number in range(1, 20):
        assert settled(known, lora(number, "a", path))[0] == USABLE
    assert len(known._entries) == len(known._known) == 3


def test_close_ends_the_thread_and_may_be_called_again(tmp_path):
    known = Adapters()
    settled(known, lora(1, "a", write(tmp_path / "a")))
    thread = known._thread
    known.close()
    known.close()
    assert not thread.is_alive()


def test_folded_keys_fit_the_daemon_and_equal_no_others():
    """(adapter, no salt) and (no adapter, salt) can't meet: their keys differ in length."""
    ids = [bytes(16), b"a" * 16, b"b" * 16]
    folded = [fold(HASHES, content_id) for content_id in ids]
    flat = [key for keys in [HASHES] + folded for key in keys]
    assert len(set(flat)) == len(flat)
    assert {len(key) for keys in folded for key in keys} == {48}
    assert fold(HASHES, ids[1]) == [key + ids[1] for key in HASHES]


def test_hashes_too_long_to_append_to_are_hashed_with_the_adapter():
    longs = [bytes([i]) * 60 for i in range(2)]
    one, other = fold(longs, b"a" * 16), fold(longs, b"b" * 16)
    assert len({*one, *other}) == 4 and {len(key) for key in one + other} == {48}
