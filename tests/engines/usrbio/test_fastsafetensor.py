# SPDX-License-Identifier: Apache-2.0
"""Goal: a program that others compiled against 3FS's own library reads exact bytes through ours.

Method: the compiled reader of fastsafetensor-3fs-reader, one request at a time into host memory.
"""
import ctypes
import json
import os
import random

import pytest

core = pytest.importorskip("fastsafetensor_3fs_reader.cpp._core_v2")
BUFFER = 1 << 20


def content(count, seed=1):
    return random.Random(seed).randbytes(count)


def write(path, content):
    with open(path, "xb") as file:
        file.write(content)


@pytest.fixture
def reader(folder):
    made = core.ThreeFSReader(mount_point=os.path.realpath(folder), entries=64, io_depth=0,
                              buffer_size=BUFFER)
    yield made
    made.close_all()


def read(reader, fd, offset, count, chunk):
    memory = ctypes.create_string_buffer(count)
    got = reader.read_chunked_pipelined(fd, ctypes.addressof(memory), offset, count, chunk, True)
    return got, memory.raw


@pytest.mark.parametrize("count, chunk", [
    (3_000_000, 400_000), (3_000_000, BUFFER), (1, 0), (BUFFER, 4096), (2 * BUFFER + 1, 0)])
def test_a_file_is_read_exactly_in_chunks_of_any_size(folder, reader, count, chunk):
    path = os.path.join(folder, "a")
    write(path, content(count))
    got, bytes_read = read(reader, reader.open(path), 0, count, chunk)
    assert got == count
    assert bytes_read == content(count)


@pytest.mark.parametrize("offset", [1, 4095, BUFFER - 1, BUFFER, 2 * BUFFER + 7])
def test_a_part_is_read_from_any_offset(folder, reader, offset):
    path = os.path.join(folder, "a")
    whole = content(3 * BUFFER)
    write(path, whole)
    got, bytes_read = read(reader, reader.open(path), offset, 100_000, 30_000)
    assert got == 100_000
    assert bytes_read == whole[offset:offset + 100_000]


def test_many_files_are_open_at_once(folder, reader):
    paths = [os.path.join(folder, str(n)) for n in range(20)]
    for n, path in enumerate(paths):
        write(path, content(10_000, n))
    opened = [reader.open(path) for path in paths]
    for n, fd in enumerate(opened):
        assert read(reader, fd, 0, 10_000, 0) == (10_000, content(10_000, n))


def test_headers_are_read_by_several_threads(folder, reader):
    paths = []
    for n in range(8):
        header = json.dumps({"n": n}).encode()
        paths.append(os.path.join(folder, f"{n}.safetensors"))
        write(paths[-1], len(header).to_bytes(8, "little") + header + content(1000, n))
    found = reader.open_and_read_headers(paths, 4)
    assert sorted(json.loads(header)["n"] for _, header, _, _ in found) == list(range(8))


def test_two_readers_do_not_mix_up_their_files(folder, reader):
    other = core.ThreeFSReader(mount_point=os.path.realpath(folder), entries=1, io_depth=0,
                               buffer_size=4096)
    for name, seed in (("a", 1), ("b", 2)):
        write(os.path.join(folder, name), content(50_000, seed))
    first, second = reader.open(os.path.join(folder, "a")), other.open(os.path.join(folder, "b"))
    for _ in range(3):
        assert read(reader, first, 0, 50_000, 7_000)[1] == content(50_000, 1)
        assert read(other, second, 0, 50_000, 4_096)[1] == content(50_000, 2)
    other.close_all()


def test_nothing_stays_registered_when_a_reader_is_gone(folder):
    iovs = os.path.join(folder, "3fs-virt", "iovs")
    if not os.path.isdir(iovs):
        pytest.skip("the folder isn't the mount itself: its links can't be listed")
    before = sorted(os.listdir(iovs))
    made = core.ThreeFSReader(mount_point=os.path.realpath(folder), entries=64, io_depth=0,
                              buffer_size=BUFFER)
    assert len(os.listdir(iovs)) == len(before) + 2  # memory and ring
    made.close_all()
    del made
    assert sorted(os.listdir(iovs)) == before


def test_a_reader_made_after_a_restart_reads_again(server):
    path = os.path.join(server.mount, "a")
    write(path, content(10_000))
    core.ThreeFSReader(mount_point=server.mount, entries=4, io_depth=0, buffer_size=BUFFER)
    server.restart()
    reader = core.ThreeFSReader(mount_point=server.mount, entries=4, io_depth=0,
                                buffer_size=BUFFER)
    assert read(reader, reader.open(path), 0, 10_000, 0) == (10_000, content(10_000))
    reader.close_all()
