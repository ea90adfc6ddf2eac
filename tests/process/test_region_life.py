# SPDX-License-Identifier: Apache-2.0
"""Goal: a registration is a handle of its own, from its answer to the answer of its end, and no
block outside it is ever touched. (Bug reports O1-20, O11-03, O11-09, O11-10.)

Method: a client by hand registers the same, overlapping and adjacent memory, ends registrations
twice and with copies under way, and names blocks that can't be; canaries lie around every block.
"""
import mmap
import os
import struct

import pytest

import accounts
import content
import flat
import kvsidecar
from engine import Engine
from kvsidecar import Status
from raw_engine import ECHO_BYTES, NONCE, PAGE_BYTES, RawEngine, memfd
from raw_peer import GET, PUT, REGISTER_LAYOUT, REGISTER_REGION, UNREGISTER
from waiting import eventually

CANARY = b"\xc5"
UNKNOWN = {Status.UNKNOWN_HANDLE, Status.STALE_HANDLE}


def unregister(peer, handle, **more):
    return peer.call(UNREGISTER, flat.table({0: flat.u64(handle)}), **more).status


def page_of(key):
    return content.page(key, PAGE_BYTES).tobytes()


def register_part(peer, offset, bytes_):
    """Pages `offset`… of the engine's file as a region of their own, its echo in its last page."""
    os.pwrite(peer.region_fd, struct.pack("<Q", NONCE), offset + bytes_ - ECHO_BYTES)
    answer = peer.call(REGISTER_REGION, flat.register_region(
        peer.offer(peer.region_fd), bytes_=bytes_, offset=offset, echo_offset=bytes_ - ECHO_BYTES,
        nonce=NONCE))
    assert answer.status == Status.OK, answer
    return answer.handle


def regions(daemon):
    """What the daemon holds of clients by hand, by its own account: (regions, bytes)."""
    with kvsidecar.Client(daemon.socket) as client:
        told = client.stat(kvsidecar.Stat.SESSIONS).result().json()["sessions"]
    return [(one["regions"], one["region_bytes"]) for one in told if one["name"] == "by hand"]


def test_memory_that_is_registered_twice_has_two_lives(start):
    """O11-09: the same file twice, and again by another session; each end ends one."""
    daemon = start()
    keys = content.keys(range(4))
    with RawEngine(daemon.socket) as peer, RawEngine(daemon.socket) as other:
        whole = len(peer.memory)
        second = peer.register(peer.region_fd, whole).handle
        assert second != peer.region
        layouts = [peer.layout, peer.make_layout(second).handle]
        theirs = other.make_layout(other.register(peer.region_fd, whole).handle).handle
        peer.memory[:PAGE_BYTES] = page_of(keys[0])
        assert peer.put(keys[:1], layout=layouts[0]).payload == bytes([Status.OK])
        assert unregister(peer, peer.region) == Status.OK
        for engine, layout in ((peer, layouts[1]), (other, theirs)):  # the others live on
            peer.memory[:PAGE_BYTES] = bytes(PAGE_BYTES)
            assert engine.get(keys[:1], layout=layout).payload == bytes([Status.OK])
            assert peer.memory[:PAGE_BYTES] == page_of(keys[0])
        assert unregister(peer, second) == Status.OK
        assert peer.get(keys[:1], layout=layouts[1]).status in UNKNOWN
        peer.memory[:PAGE_BYTES] = bytes(PAGE_BYTES)
        assert other.get(keys[:1], layout=theirs).payload == bytes([Status.OK])
        assert peer.memory[:PAGE_BYTES] == page_of(keys[0])


@pytest.mark.parametrize("first, second", [
    ((0, 8), (7, 8)), ((0, 8), (8, 8)), ((0, 8), (2, 3)), ((2, 3), (0, 8)),
], ids=["overlapping", "adjacent", "contained", "containing"])
def test_overlapping_registrations_are_separate_handles(start, first, second):
    """O11-09."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:
        handles = [register_part(peer, at * PAGE_BYTES, pages * PAGE_BYTES)
                   for at, pages in (first, second)]
        assert len(set(handles)) == 2
        for (at, _), handle in zip((first, second), handles):
            layout = peer.make_layout(handle, blocks=1).handle
            key = content.key(at, b"part")
            peer.memory[at * PAGE_BYTES:(at + 1) * PAGE_BYTES] = page_of(key)
            assert peer.put([key], layout=layout).payload == bytes([Status.OK])
            peer.memory[at * PAGE_BYTES:(at + 1) * PAGE_BYTES] = CANARY * PAGE_BYTES
            assert peer.get([key], layout=layout).payload == bytes([Status.OK])
            assert peer.memory[at * PAGE_BYTES:(at + 1) * PAGE_BYTES] == page_of(key)
        for handle in handles:
            assert unregister(peer, handle) == Status.OK


def test_an_end_that_is_asked_for_again_says_that_it_is_done(start):
    """O11-10: an answer that was lost, a handle that never was."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:
        before = regions(daemon)
        handle = peer.register(peer.region_fd, len(peer.memory)).handle
        assert unregister(peer, handle) == Status.OK
        for _ in range(3):
            assert unregister(peer, handle) in UNKNOWN
        assert unregister(peer, peer.layout) == Status.OK
        assert unregister(peer, peer.layout) in UNKNOWN
        for never in (0, 1, handle + 1000, (1 << 64) - 1):
            assert unregister(peer, never) in UNKNOWN
        assert regions(daemon) == before
        assert unregister(peer, peer.region) == Status.OK
        assert regions(daemon) == [(0, 0)]


def test_the_end_comes_after_the_copies_that_are_under_way(start):
    """O11-10: after its answer the memory may be used for anything."""
    page, blocks = 1 << 20, 32
    daemon = start(copy={"threads": 1, "inline_bytes": 0})
    with Engine(daemon.socket, 1, 65536, model="witness") as witness, \
            RawEngine(daemon.socket, page_bytes=page, blocks=blocks) as peer:
        keys = content.keys(range(blocks))
        assert set(peer.put(keys).payload) == {Status.OK}
        for turn in range(6):
            region = peer.register(peer.region_fd, len(peer.memory)).handle
            layout = peer.make_layout(region).handle
            request = peer.begin(GET, keys, layout=layout)
            end = peer.send_record(UNREGISTER, flat.table({0: flat.u64(region)}))
            answers = [peer.answer() for _ in range(2)]
            assert [answer.request for answer in answers] == [request, end]
            assert answers[1].status == Status.OK
            assert set(answers[0].payload) == {Status.OK}
            peer.memory[:] = CANARY * len(peer.memory)  # freed and used again
            assert set(witness.check_put(content.keys([turn], b"w"))) == {Status.OK}
            assert peer.memory[:] == CANARY * len(peer.memory)


@pytest.mark.parametrize("block", [32, 33, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("type_", [PUT, GET])
def test_a_block_that_is_not_there_is_refused_and_no_canary_touched(start, type_, block):
    """O11-03."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:
        key = content.key(1)
        assert peer.put([key]).payload == bytes([Status.OK])
        peer.memory[:] = CANARY * len(peer.memory)
        peer.queue_claim(0, 0)
        answer = peer.call(type_, flat.transfer(peer.namespace, [key], [(peer.layout, block, 0)]))
        assert answer.status == Status.INVALID and b"%d" % block in answer.payload, answer
        assert peer.memory[:] == CANARY * len(peer.memory)


@pytest.mark.parametrize("blocks, base, stride, length", [
    (33, 4096, 4096, 4096), (34, 0, 4096, 4096), (32, 8192, 4096, 4096), (2, 0, 1 << 63, 8),
    (3, 0, (1 << 63) + 8, 8), (1, (1 << 64) - 8, 0, 16), ((1 << 32) - 1, 0, 4096, 4096),
    (1 << 31, 0, 1 << 33, 8), (32, 0, 4096, 1 << 63), (32, 0, 4096, 0), (0, 0, 4096, 4096),
])
def test_a_layout_that_leaves_its_memory_is_refused(start, blocks, base, stride, length):
    """O11-03: its last block, whatever its numbers do in 64 bits."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:  # 33 pages, the echo's with them
        answer = peer.call(REGISTER_LAYOUT, flat.register_layout(
            blocks, [(peer.region, base, stride, length)]))
        assert answer.status == Status.INVALID and answer.payload, answer


def test_blocks_closer_than_their_length_share_bytes_and_leave_none(start):
    """O11-03: a stride below the run's length is the engine's to choose; each block is still just
    its own bytes, and what lies around them stays."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:
        layout = peer.call(REGISTER_LAYOUT, flat.register_layout(
            8, [(peer.region, 4 * PAGE_BYTES, PAGE_BYTES // 2, PAGE_BYTES)]))
        assert layout.status == Status.OK
        key = content.key(1)
        peer.memory[:PAGE_BYTES] = page_of(key)
        assert peer.put([key]).payload == bytes([Status.OK])
        peer.memory[:] = CANARY * len(peer.memory)
        peer.queue_claim(0, 0)
        answer = peer.call(GET, flat.transfer(peer.namespace, [key], [(layout.handle, 7, 0)]))
        assert answer.payload == bytes([Status.OK])
        at = 4 * PAGE_BYTES + 7 * PAGE_BYTES // 2
        assert peer.memory[at:at + PAGE_BYTES] == page_of(key)
        rest = peer.memory[:at] + peer.memory[at + PAGE_BYTES:]
        assert rest == CANARY * len(rest)


def test_an_address_that_is_mapped_anew_is_nothing_to_an_old_registration(start):
    """O1-20: the daemon has the file, not the address."""
    daemon = start()
    with RawEngine(daemon.socket) as peer:
        key = content.key(1)
        peer.memory[:PAGE_BYTES] = page_of(key)
        assert peer.put([key]).payload == bytes([Status.OK])
        old_fd, old_region, old_layout = peer.region_fd, peer.region, peer.layout
        peer.memory.close()
        peer.region_fd = memfd(33 * PAGE_BYTES)
        peer.memory = mmap.mmap(peer.region_fd, 0)
        peer.memory[:] = CANARY * len(peer.memory)
        assert peer.get([key], layout=old_layout, first=3).payload == bytes([Status.OK])
        assert peer.memory[:] == CANARY * len(peer.memory)
        assert os.pread(old_fd, PAGE_BYTES, 3 * PAGE_BYTES) == page_of(key)
        new = peer.register(peer.region_fd, len(peer.memory)).handle
        assert new != old_region
        assert unregister(peer, old_region) == Status.OK
        assert peer.get([key], layout=peer.make_layout(new).handle).payload == bytes([Status.OK])
        assert peer.memory[:PAGE_BYTES] == page_of(key)
        os.close(old_fd)
    eventually(lambda: accounts.status(daemon)["sessions"] == 1, "the session has ended",
               pid=daemon.pid)
