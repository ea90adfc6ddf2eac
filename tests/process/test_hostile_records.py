# SPDX-License-Identifier: Apache-2.0
"""Goal: no record and no ring position that a peer can write disturbs anybody but that peer, and
each is refused by a sentence that names field, value and remedy.

Method: a client by hand that lies in one thing. What can't come from a sound client ends the
session, told in the daemon's log; what may be a mistake is answered. A witness, who has been there
from before, is served and finds his pages after each.
"""
import os
import struct

import pytest

import content
import flat
from engine import Engine
from kvsidecar import Status
from raw_engine import PAGE_BYTES, RawEngine
from raw_peer import (CELL_BYTES, GET, HEAD_BYTES, LOOKUP, NOOP, PUT, REGISTER_LAYOUT, RELEASE,
                      SECOND_NS, SKIPPED, STAT, UNREGISTER, WHY, HungUp, RawPeer)
from waiting import eventually

KEY = content.key(1)
CELLS = 128  # of the submission ring
ANSWERS = 128


@pytest.fixture
def daemon(start):
    """A daemon with a witness, whose pages are checked after the test."""
    daemon = start()
    with Engine(daemon.socket, 8, 65536, model="witness") as witness:
        keys = content.keys(range(8), b"witness")
        assert witness.put(keys).result().succeeded == 8
        yield daemon
        assert witness.client.wait_connected(20)  # a test may have started the daemon anew
        assert set(witness.check_get(keys)) == {Status.OK}


def ends(peer):
    """True when the daemon ends the session, with no answer before."""
    with pytest.raises(HungUp):
        peer.answer()
    return True


def refused(answer, *words):
    assert answer.status == Status.INVALID, answer
    text = answer.payload.decode()
    for word in words:
        assert word in text, text
    return True


# Positions.

@pytest.mark.parametrize("ahead", [CELLS + 1, 1000, 1 << 40, (1 << 64) - 1])
def test_a_submission_position_out_of_the_ring_ends_the_session(daemon, ahead):
    with RawPeer(daemon.socket) as peer:
        peer.publish(ahead)
        assert ends(peer)
    daemon.log_has(r"session_ended.*submission ring: published is %d" % ahead)


def test_a_submission_position_that_goes_back_ends_the_session(daemon):
    with RawPeer(daemon.socket) as peer:
        for _ in range(5):
            assert peer.call(NOOP, b"").status == Status.OK
        peer.publish(2)
        assert ends(peer)
    daemon.log_has(r"published is 2 where the daemon has consumed 5")


# The position is looked at when half of the ring is lent out.
@pytest.mark.parametrize("read", [100, 1 << 63, (1 << 64) - 1])
def test_a_completion_position_that_cannot_be_ends_the_session(daemon, read):
    with RawPeer(daemon.socket) as peer:
        assert peer.call(NOOP, b"").status == Status.OK
        peer.set_read(read)
        for _ in range(ANSWERS // 2 + 1):
            peer.write(NOOP, b"")
        peer.publish()
        assert peer.hung_up()
    daemon.log_has(r"completion ring: consumed is %d" % read)


# Heads.

@pytest.mark.parametrize("lies, words", [
    (dict(length=CELL_BYTES - 63), "length is 1985"),
    (dict(length=0xFFFFFFFF), "length is 4294967295"),
    (dict(flags=1), "flags is 1"),
    (dict(arena=(1 << 20, 64), length=0), "arena_offset is 1048576"),
    (dict(arena=(0xFFFFFFC0, 65536), length=0), "arena_offset is 4294967232"),
    (dict(arena=(0, 65537), length=0), "arena_length is 65537"),
    (dict(arena=(7, 64), length=0), "arena_offset is 7"),
    (dict(arena=(64, 0)), "arena_offset is 64"),
    (dict(arena=(0, 64), length=8), "length is 8"),
])
def test_a_record_that_leaves_its_cell_or_the_arena_ends_the_session(daemon, lies, words):
    with RawPeer(daemon.socket) as peer:
        peer.send_record(STAT, flat.stat(), **lies)
        assert ends(peer)
    daemon.log_has(r"session_ended.*record head: " + words)


def test_a_record_that_changes_while_it_is_read_is_one_or_the_other(daemon):
    """The daemon looks only at its copy: a length that is raised after the check reads nothing."""
    with RawPeer(daemon.socket) as peer:
        for turn in range(200):
            request = peer.send_record(STAT, flat.stat())
            cell = HEAD_BYTES + (peer.position - 1) % CELLS * CELL_BYTES
            peer.submission[cell:cell + 4] = struct.pack("<I", 0xFFFFFFFF if turn == 199 else 8)
            try:
                assert peer.answer().request == request
            except HungUp:
                return


@pytest.mark.parametrize("type_", [0, 15, 99, 0xFFFF])
def test_an_unknown_type_is_answered_by_name(daemon, type_):
    with RawPeer(daemon.socket) as peer:
        assert refused(peer.call(type_, b"\0" * 32), f"type {type_}")
        assert peer.call(NOOP, b"").status == Status.OK


def test_deadlines_that_cannot_be_are_refused(daemon):
    with RawPeer(daemon.socket) as peer:
        assert refused(peer.call(NOOP, b"", deadline_ns=0), "deadline_ns")
        assert refused(peer.call(NOOP, b"", deadline_ns=(1 << 64) - 1), "deadline_ns")
        assert peer.call(STAT, flat.stat(), deadline_ns=1).status in (Status.OK, Status.TIMEOUT)


# Payloads.

def garbage(number):
    return [b"", b"\0", b"\xff" * 64, b"\0" * 1984, os.urandom(512), os.urandom(60000),
            struct.pack("<I", 0x7FFFFFFC) + b"\0" * 60, struct.pack("<I", 4) + b"\xff" * 60][number]


@pytest.mark.parametrize("number", range(8))
def test_bytes_that_are_no_flatbuffer_are_refused(daemon, number):
    with RawPeer(daemon.socket) as peer:
        for type_ in range(1, NOOP):
            assert refused(peer.call(type_, garbage(number))), type_
        assert peer.call(NOOP, b"").status == Status.OK


@pytest.mark.parametrize("type_", [PUT, GET, LOOKUP])
@pytest.mark.parametrize("claimed", [100_000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_record_that_claims_more_items_than_it_holds_is_refused(daemon, type_, claimed):
    with RawEngine(daemon.socket) as peer:
        record = flat.lookup(peer.namespace, [KEY], count=claimed) if type_ == LOOKUP else \
            flat.transfer(peer.namespace, [KEY], [(peer.layout, 0, 0)], count=claimed)
        answer_or_end(peer, type_, record)


def answer_or_end(peer, type_, record):
    """A record that can't come from a sound client is refused or ends its session."""
    try:
        assert refused(peer.call(type_, record))
    except HungUp:
        pass


def test_every_mutilated_record_leaves_the_others_alone(daemon):
    """Good records cut anywhere and with any word spoiled."""
    with RawEngine(daemon.socket) as peer:
        good = {PUT: flat.transfer(peer.namespace, [KEY], [(peer.layout, 0, 0)]),
                GET: flat.transfer(peer.namespace, [KEY], [(peer.layout, 0, 0)]),
                LOOKUP: flat.lookup(peer.namespace, [KEY])}
        for type_, record in good.items():
            for at in range(0, len(record), 4):
                spoiled = bytearray(record)
                spoiled[at:at + 4] = struct.pack("<I", 0xFFFFFFF0)
                for variant in (bytes(spoiled), record[:at]):
                    peer.queue_claim(0, 0)
                    try:
                        peer.call(type_, variant)
                    except HungUp:  # the next one begins where this one ended
                        peer.close()
                        peer.__init__(daemon.socket)


# Fields.

def bad_items(peer):
    """(record type, record, words of its refusal)."""
    item, space = (peer.layout, 0, 0), peer.namespace
    return [
        (PUT, flat.transfer(space, [b""], [item], key_bytes=0), "key_bytes is 0"),
        (GET, flat.transfer(space, [b"x" * 65], [item]), "key_bytes is 65"),
        (PUT, flat.transfer(space, [b"xyz"], [item], key_bytes=2), "keys (bytes) is 3"),
        (GET, flat.transfer(space, [b""], [], key_bytes=16), "keys (items) is 0"),
        (PUT, flat.transfer(space, [KEY, KEY], [item]), "items is 1"),
        (LOOKUP, flat.lookup(space, [KEY], total=40000), "total is 40000"),
        (LOOKUP, flat.lookup(space, [b""], key_bytes=16, total=0), "keys (items) is 0"),
        (PUT, flat.transfer(space, [KEY], [(peer.layout, 0, 1 << 20)]), "claim 1048576"),
        (PUT, flat.transfer(space, [KEY], [(peer.layout, 4000, 0)]), "block 4000"),
        (REGISTER_LAYOUT, flat.register_layout(0, [(peer.region, 0, 1, 1)]), "blocks is 0"),
        (REGISTER_LAYOUT, flat.register_layout(2, [(peer.region, 1 << 63, 1 << 63, 8)]), "stride"),
        (REGISTER_LAYOUT, flat.register_layout(2, [(peer.region, 0, 1 << 20, 8)]), "1048576"),
        (REGISTER_LAYOUT, flat.register_layout(1, []), "runs is 0"),
        (PUT, with_runs(peer, [(0, 2, 0)], [(peer.region, 0, 4096), (peer.region, 0, 8)]),
         "sum to more"),
        (GET, with_runs(peer, [(0, 1, 0)], [(peer.region, 0, 100)]), "sum to 100"),
        (PUT, with_runs(peer, [(0, 1, 0)], [(peer.region, (1 << 64) - 8, 4096)]), "runs.offset"),
        (PUT, with_runs(peer, [(0, 1, 0)], [(peer.region, 1 << 40, 4096)]), "offset 1099511627776"),
        (PUT, with_runs(peer, [(0, 65, 0)], [(peer.region, 0, 64)] * 65), "run_count is 65"),
        (PUT, with_runs(peer, [(1, 1, 0)], [(peer.region, 0, 4096)]), "first_run is 1"),
        (WHY, flat.table({1: flat.Vector(b"x" * 65)}), "65"),
    ]


def with_runs(peer, items, runs):
    return flat.table({0: flat.u64(peer.namespace), 1: flat.u8(16), 2: flat.keys([KEY]),
                       4: flat.run_items(items), 5: flat.runs(runs)})


def test_wrong_fields_are_named_with_value_and_the_session_lives(daemon):
    with RawEngine(daemon.socket) as peer:
        for type_, record, words in bad_items(peer):
            peer.queue_claim(0, 0)
            assert refused(peer.call(type_, record), words)
        assert peer.put([KEY]).payload == bytes([Status.OK])


def unknown(peer, handle):
    """Requests that name a handle which isn't this session's."""
    item = (peer.layout, 0, 0)
    return [
        (PUT, flat.transfer(handle, [KEY], [item])), (GET, flat.transfer(handle, [KEY], [item])),
        (LOOKUP, flat.lookup(handle, [KEY])),
        (PUT, flat.transfer(peer.namespace, [KEY], [(handle, 0, 0)])),
        (GET, with_runs(peer, [(0, 1, 0)], [(handle, 0, PAGE_BYTES)])),
        (REGISTER_LAYOUT, flat.register_layout(1, [(handle, 0, 8, 8)])),
        (UNREGISTER, flat.table({0: flat.u64(handle)})),
        (RELEASE, flat.table({0: flat.u64(handle)})),
    ]


def test_handles_of_nobody_and_of_another_session_are_unknown(daemon):
    with RawEngine(daemon.socket) as peer, RawEngine(daemon.socket) as other:
        handles = [0, 1, (1 << 64) - 1, other.namespace, other.region, other.layout]
        for handle in handles:
            for type_, record in unknown(peer, handle):
                peer.queue_claim(0, 0)
                answer = peer.call(type_, record)
                # A lease that has ended and one that never was look alike.
                assert answer.status in (Status.UNKNOWN_HANDLE, Status.STALE_HANDLE) or \
                    (type_ == RELEASE and answer.status == Status.EXPIRED), (type_, handle, answer)
                assert peer.claim_state(0) != 2  # nobody copies
        assert other.put([KEY]).payload == bytes([Status.OK])


def test_a_handle_of_an_earlier_epoch_is_stale_not_guessed(daemon):
    with RawEngine(daemon.socket) as peer:
        old = peer.namespace, peer.region, peer.layout
    assert daemon.terminate() == 0
    daemon.start()
    with RawEngine(daemon.socket) as peer:
        for handle in old:
            for type_, record in unknown(peer, handle):
                peer.queue_claim(0, 0)
                answer = peer.call(type_, record)
                assert answer.status == Status.STALE_HANDLE, (type_, answer)


def test_an_item_that_is_refused_is_never_copied(daemon):
    with RawEngine(daemon.socket) as peer:
        keys = content.keys(range(4))
        for i in range(4):
            peer.queue_claim(i, i)
        items = [(peer.layout, i, i) for i in range(3)] + [(peer.layout, 999, 3)]
        assert refused(peer.call(PUT, flat.transfer(peer.namespace, keys, items)), "item 3")
        assert [peer.claim_state(i) for i in range(4)] == [SKIPPED] * 4
        found = peer.call(LOOKUP, flat.lookup(peer.namespace, keys))
        assert found.value == 0 and found.payload[1:] == bytes(4)


def test_a_claim_word_of_another_request_is_not_won(daemon):
    """A client that writes nonsense into its claim words only loses its own items."""
    with RawEngine(daemon.socket) as peer:
        for word in (0, (1 << 64) - 1, 0xDEAD << 24 | 1):
            peer.queue_claim(0, 0)
            peer.cells[peer._claim_place(0):peer._claim_place(0) + 8] = struct.pack("<Q", word)
            record = flat.transfer(peer.namespace, [content.key(word & 0xFFFF, b"claim")],
                                   [(peer.layout, 0, 0)])
            answer = peer.call(PUT, record)
            assert answer.payload[0] not in (Status.OK, Status.OK_PART, Status.EXISTS), answer


def test_a_lookup_whose_records_are_mixed_with_others_ends_the_session(daemon):
    with RawEngine(daemon.socket) as peer:
        peer.send_record(LOOKUP, flat.lookup(peer.namespace, [KEY], total=2))
        peer.send_record(NOOP, b"")
        assert ends(peer)
    with RawEngine(daemon.socket) as peer:
        peer.send_record(LOOKUP, flat.lookup(peer.namespace, [KEY], total=3))
        peer.send_record(LOOKUP, flat.lookup(peer.namespace, [KEY], total=3, offset=2),
                         deadline_ns=SECOND_NS)
        assert ends(peer)


# Claims against a full ring.

def test_one_that_never_reads_its_answers_waits_and_disturbs_nobody(daemon):
    with RawEngine(daemon.socket) as peer:
        before = peer.consumed()
        for _ in range(CELLS):
            peer.write(NOOP, b"")
        peer.publish()
        # As many answers as there are cells, then the daemon takes nothing more of this one.
        eventually(lambda: peer.published() == peer.read + ANSWERS, "the answers' ring is full")
        for _ in range(CELLS):
            peer.write(NOOP, b"")
        peer.publish()
        with Engine(daemon.socket, 8, 65536, model="other") as other:
            keys = content.keys(range(8), b"other")
            assert set(other.check_put(keys)) == {Status.OK}
            assert set(other.check_get(keys)) == {Status.OK}
        assert peer.consumed() <= before + ANSWERS
        for _ in range(2 * CELLS):
            assert peer.answer().status == Status.OK


def test_one_that_floods_gets_its_answers_and_others_theirs(daemon):
    """A ring full of puts, gets, lookups and stats at a time, again and again."""
    with RawEngine(daemon.socket) as peer, Engine(daemon.socket, 8, 65536, model="o") as other:
        for turn in range(30):
            for i in range(32):
                keys = content.keys(range(turn * 32 + i, turn * 32 + i + 1), b"flood")
                peer.queue_claim(i, 0)
                peer.write(PUT if i % 2 else GET, flat.transfer(
                    peer.namespace, keys, [(peer.layout, i, i)]))
                peer.write(LOOKUP, flat.lookup(peer.namespace, keys, lease_ms=50))
                peer.write(STAT, flat.stat())
            peer.publish()
            keys = content.keys(range(8), b"other%d" % turn)
            assert set(other.check_put(keys)) == {Status.OK}
            assert set(other.check_get(keys)) == {Status.OK}
            for _ in range(96):
                assert peer.answer().status in (Status.OK, Status.BUSY)
