# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever file a client offers as its memory, and whatever it does to that file later, costs
at most its own session. (Bug reports O1-20, O3-01, O3-03, O3-23.)

Method: files that are no memory, too short, sparse; files that shrink or lose pages during copies;
a mapping that is another one than the client believes. Each refusal names what is wrong, and a
witness is served meanwhile.
"""
import ctypes
import os
import struct
import time

import pytest

import content
import flat
from engine import Engine
from kvsidecar import Status
from raw_engine import ECHO_BYTES, NONCE, PAGE_BYTES, RawEngine, memfd
from raw_peer import (GET, PUT, QUEUED, REGISTER_LAYOUT, REGISTER_REGION, UNREGISTER, HungUp)
from waiting import eventually

MFD_HUGETLB = 0x0004
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
BYTES = 64 * 1024


@pytest.fixture
def daemon(start):
    """A daemon with a witness, whose pages are checked after the test."""
    daemon = start(copy={"threads": 1, "inline_bytes": 0})
    with Engine(daemon.socket, 8, 65536, model="witness") as witness:
        keys = content.keys(range(8), b"witness")
        assert witness.put(keys).result().succeeded == 8
        yield daemon
        assert set(witness.check_get(keys)) == {Status.OK}


def refused(answer, *words, status=Status.INVALID):
    assert answer.status == status, answer
    for word in words:
        assert word in answer.payload.decode(), answer
    return True


def offered(daemon, fd, bytes_=BYTES, **more):
    """The answer to a registration of that file; the session must live on."""
    with RawEngine(daemon.socket, register=False) as peer:
        answer = peer.register(fd, bytes_, **more)
        good = memfd(BYTES)
        assert peer.register(good, BYTES).status == Status.OK
        os.close(good)
        os.close(fd)
        return answer


def test_a_pipe_is_no_memory(daemon):
    read, write = os.pipe()
    os.close(write)
    assert refused(offered(daemon, read, write_nonce=False), "fd")


def test_a_socket_and_a_directory_are_no_memory(daemon):
    assert refused(offered(daemon, os.eventfd(0), write_nonce=False), "fd")
    assert refused(offered(daemon, os.open("/tmp", os.O_RDONLY), write_nonce=False), "fd")


def test_a_device_is_no_memory(daemon):
    assert refused(offered(daemon, os.open("/dev/zero", os.O_RDWR), write_nonce=False), "fd")


def test_a_file_that_is_too_short_is_refused_with_its_size(daemon):
    assert refused(offered(daemon, memfd(BYTES - 4096), write_nonce=False), str(BYTES - 4096))


def test_an_offset_behind_the_end_is_refused(daemon):
    assert refused(offered(daemon, memfd(BYTES), offset=4096), "ends beyond")


@pytest.mark.parametrize("offset, bytes_", [((1 << 63) - 4096, BYTES), (1 << 63, BYTES),
                                            (0, (1 << 64) - 1), (4096, (1 << 63) - 4096)])
def test_offset_and_length_that_overflow_are_refused(daemon, offset, bytes_):
    with RawEngine(daemon.socket, register=False) as peer:
        fd = memfd(BYTES)
        token = peer.offer(fd)
        os.close(fd)
        assert refused(peer.call(REGISTER_REGION, flat.register_region(token, bytes_, offset)))


def test_a_sparse_file_is_refused_with_what_is_missing(daemon):
    fd = memfd(BYTES, allocate=False)
    os.pwrite(fd, b"x", 0)
    assert refused(offered(daemon, fd, write_nonce=False), "sparse", "fallocate")


def test_a_file_open_for_reading_only_is_refused(daemon):
    fd = memfd(BYTES)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    assert refused(offered(daemon, again, write_nonce=False), "reading and writing")


def test_hugetlb_memory_without_pages_is_refused(daemon):
    with open("/proc/sys/vm/nr_hugepages", encoding="ascii") as file:
        if int(file.read()) != 0:
            pytest.skip("this machine has huge pages")
    huge = 2 << 20
    fd = _libc.memfd_create(b"huge", MFD_HUGETLB)
    if fd < 0:
        pytest.skip(f"no hugetlb memfd here: {os.strerror(ctypes.get_errno())}")
    os.ftruncate(fd, huge)
    assert refused(offered(daemon, fd, huge, write_nonce=False, echo_offset=0))


def test_a_kind_that_is_not_known_is_refused(daemon):
    assert refused(offered(daemon, memfd(BYTES), kind=1), "kind")


def test_a_token_without_a_descriptor_is_refused(daemon):
    with RawEngine(daemon.socket, register=False) as peer:
        answer = peer.call(REGISTER_REGION, flat.register_region(77, BYTES),
                           deadline_ns=time.monotonic_ns() + 200_000_000)
        assert refused(answer, "token 77")


@pytest.mark.parametrize("echo", [1, 4, BYTES - 7, BYTES, 1 << 40, (1 << 64) - 8])
def test_an_echo_outside_the_region_is_refused(daemon, echo):
    assert refused(offered(daemon, memfd(BYTES), echo_offset=echo), "echo_offset")


def test_a_mapping_that_is_another_one_is_caught_by_the_echo(daemon):
    """O1-20: the file that came isn't the one in which the client wrote its nonce."""
    fd = memfd(BYTES)
    answer = offered(daemon, fd, write_nonce=False, nonce=NONCE)
    assert refused(answer, "register the memory again", status=Status.STALE_MAPPING)


def test_the_echo_answers_another_value_in_the_memory_itself(daemon):
    with RawEngine(daemon.socket, register=False) as peer:
        fd = memfd(BYTES)
        answer = peer.register(fd, BYTES)
        assert answer.status == Status.OK and answer.value != NONCE
        word, = struct.unpack("<Q", os.pread(fd, 8, BYTES - ECHO_BYTES))
        assert word == answer.value
        os.close(fd)


# Memory that goes during a copy.

PAGE_BYTES_BIG = 256 * 1024
BLOCKS = 64


def wait_for_copy(peer):
    """Until the daemon has claimed an item; the copy takes milliseconds from here."""
    end = time.monotonic() + 10
    while all(peer.claim_state(i) == QUEUED for i in range(BLOCKS)):
        assert time.monotonic() < end


def shrink(fd):
    os.ftruncate(fd, 4096)


def punch(fd):
    """On tmpfs a hole reads as zeros: the copy isn't disturbed, the bytes are the client's own
    fault."""
    bytes_ = BLOCKS * PAGE_BYTES_BIG
    if _libc.fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, ctypes.c_long(0),
                       ctypes.c_long(bytes_)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def fill(peer, keys):
    for i, key in enumerate(keys):
        start = i * PAGE_BYTES_BIG
        peer.memory[start:start + PAGE_BYTES_BIG] = content.page(key, PAGE_BYTES_BIG).tobytes()


@pytest.mark.parametrize("type_", [PUT, GET], ids=["put", "get"])
def test_a_file_that_shrinks_during_a_copy_ends_its_session_only(daemon, type_):
    """Caught in the middle or not, no page is made of what isn't there."""
    keys = content.keys(range(BLOCKS), b"shrink")
    peer = RawEngine(daemon.socket, page_bytes=PAGE_BYTES_BIG, blocks=BLOCKS)
    fill(peer, keys)
    if type_ == GET:
        assert peer.put(keys).status == Status.OK
    peer.begin(type_, keys)
    wait_for_copy(peer)
    shrink(peer.region_fd)
    try:
        peer.answer()
        assert peer.get(keys).status == Status.MEMORY_FAULT
        assert peer.hung_up()
    except HungUp:
        pass
    # What counts as stored is whole: nothing of it is from behind the file's end.
    check_stored(daemon, keys)
    peer.memory = None  # a look at it would be a SIGBUS here
    peer.close()
    daemon.log_has(r"session_ended.*memory")


def check_stored(daemon, keys):
    with Engine(daemon.socket, BLOCKS, PAGE_BYTES_BIG) as engine:
        found = engine.lookup(keys).result()
        there = [key for key, place in zip(keys, found.places) if place]
        if there:
            assert set(engine.check_get(there, timeout=10)) == {Status.OK}


@pytest.mark.parametrize("type_", [PUT, GET], ids=["put", "get"])
def test_a_hole_that_is_punched_during_a_copy_disturbs_nobody(daemon, type_):
    keys = content.keys(range(BLOCKS), b"punch")
    with RawEngine(daemon.socket, page_bytes=PAGE_BYTES_BIG, blocks=BLOCKS) as peer:
        fill(peer, keys)
        if type_ == GET:
            assert peer.put(keys).status == Status.OK
        peer.begin(type_, keys)
        wait_for_copy(peer)
        punch(peer.region_fd)
        try:
            peer.answer()
        except HungUp:
            pass


def test_memory_stays_mapped_until_its_last_copy_has_ended_and_then_goes(daemon):
    """Sessions that end in the middle of their copies leave nothing mapped: the baseline check
    after the test counts."""
    for turn in range(10):
        keys = content.keys(range(BLOCKS), b"leave%d" % turn)
        with RawEngine(daemon.socket, page_bytes=PAGE_BYTES_BIG, blocks=BLOCKS) as peer:
            fill(peer, keys)
            peer.begin(PUT, keys)
    with Engine(daemon.socket, 8) as engine:
        assert set(engine.check_put(content.keys(range(8)))) == {Status.OK}


def test_more_regions_than_allowed_are_refused(start):
    daemon = start(limits={"regions_per_session": 4, "layouts_per_session": 2})
    with RawEngine(daemon.socket) as peer:
        for number in range(4):
            fd = memfd(BYTES)
            answer = peer.register(fd, BYTES)
            os.close(fd)
            assert answer.status == (Status.OK if number < 3 else Status.OVER_QUOTA), answer
        assert "regions_per_session" in answer.payload.decode()
        record = flat.register_layout(1, [(peer.region, 0, PAGE_BYTES, PAGE_BYTES)])
        assert peer.call(REGISTER_LAYOUT, record).status == Status.OK
        assert peer.call(REGISTER_LAYOUT, record).status == Status.OVER_QUOTA


def test_unregistered_memory_is_gone_for_the_daemon_and_for_its_handle(daemon):
    with RawEngine(daemon.socket) as peer:
        key = content.key(1, b"gone")
        assert peer.put([key]).payload == bytes([Status.OK])
        assert peer.call(UNREGISTER, flat.table({0: flat.u64(peer.region)})).status == Status.OK
        eventually(lambda: "/memfd:region" not in maps(daemon), "the region is unmapped")
        assert peer.get([key]).status == Status.UNKNOWN_HANDLE


def maps(daemon):
    with open(f"/proc/{daemon.pid}/maps", encoding="utf-8") as file:
        return file.read()


def test_a_client_that_dies_with_memory_in_use_frees_it(daemon):
    child = os.fork()
    if child == 0:
        peer = RawEngine(daemon.socket, page_bytes=PAGE_BYTES_BIG, blocks=BLOCKS)
        peer.begin(PUT, content.keys(range(BLOCKS), b"dies"))
        os.kill(os.getpid(), 9)
    assert os.waitpid(child, 0)[1] == 9
    eventually(lambda: "/memfd:region" not in maps(daemon), "the dead client's memory is unmapped")
