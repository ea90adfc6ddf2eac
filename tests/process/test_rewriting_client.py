# SPDX-License-Identifier: Apache-2.0
"""Goal: a client that rewrites its requests while the daemon reads them is answered, refused or
ended, and costs nobody else anything. (Bug report O11-08.)

Method: a process beside a hand-made client writes random words over the whole of the shared
submission memory, heads, payloads and arena alike, and puts them right again, while that client
sends good records; a witness is served between them, and the baseline check follows.
"""
import os
import random
import signal

import numpy as np
import pytest

import accounts
import content
import flat
from engine import Engine
from kvsidecar import Status
from raw_engine import RawEngine
from raw_peer import (CELL_BYTES, DELETE, GET, HEAD_BYTES, LOOKUP, NOOP, PUT, STAT, WHY, HungUp)

RECORDS = {"cells": 4000, "arena": 4000, "positions": 400}  # where sessions end at once, fewer
ARENA_KEYS = 200  # a record that lies in the arena


def rewrite_forever(memory, first, last, seed):
    """Spoils a word of the mapping at a time, and puts it right."""
    words = np.frombuffer(memory, dtype=np.uint32)
    chance = random.Random(seed)
    while True:
        at = chance.randrange(first // 4, last // 4)
        right = words[at]
        words[at] = chance.choice((0, 1, 0xFFFFFFFF, chance.getrandbits(32), int(right) ^ 4))
        words[at] = right


def rewriter(peer, first, last, seed):
    child = os.fork()
    if child == 0:
        try:
            rewrite_forever(peer.submission, first, last, seed)
        finally:
            os._exit(1)
    return child


def records(peer):
    keys = content.keys(range(8))
    many = content.keys(range(ARENA_KEYS))
    return [
        (PUT, flat.transfer(peer.namespace, keys, [(peer.layout, i, i) for i in range(8)]), 8),
        (GET, flat.transfer(peer.namespace, keys, [(peer.layout, i, i) for i in range(8)]), 8),
        (LOOKUP, flat.lookup(peer.namespace, keys), 0),
        (LOOKUP, flat.lookup(peer.namespace, many, lease_ms=10), 0),
        (DELETE, flat.table({0: flat.u64(peer.namespace), 1: flat.u8(16), 2: flat.keys(keys)}), 0),
        (STAT, flat.stat(), 0), (WHY, flat.table({1: flat.Vector(keys[0])}), 0), (NOOP, b"", 0),
    ]


def answer_of(peer):
    """A rewriter that read the position before this record was published puts the old one back:
    then it is published once more."""
    for _ in range(200):
        try:
            return peer.answer(0.1)
        except AssertionError:
            peer.publish()
    return peer.answer()


def send_until_ended(peer, most):
    """Records one by one: (how many were sent, how many were answered). Ends with the session, or
    with an answer under a number that isn't the record's: it was rewritten."""
    sent = answered = 0
    while sent < most:
        for type_, record, claims in records(peer):
            for i in range(claims):
                peer.queue_claim(i, i)
            sent += 1
            try:
                request = peer.send_record(type_, record)
                if answer_of(peer).request != request:
                    return sent, answered
            except HungUp:
                return sent, answered
            answered += 1
    return sent, answered


@pytest.mark.parametrize("where", RECORDS)
def test_requests_that_change_under_the_daemons_eyes(start, where):
    daemon = start()
    sent = answered = 0
    with Engine(daemon.socket, 8, 65536, model="witness") as witness:
        keys = content.keys(range(8), b"witness")
        assert set(witness.check_put(keys)) == {Status.OK}
        while sent < RECORDS[where]:
            with RawEngine(daemon.socket) as peer:
                span = {"cells": (HEAD_BYTES, HEAD_BYTES + 8 * CELL_BYTES), "positions": (0, 64),
                        "arena": (peer.arena, peer.arena + 8192)}[where]
                child = rewriter(peer, *span, sent)
                try:
                    more, good = send_until_ended(peer, RECORDS[where] - sent)
                finally:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
            sent, answered = sent + more, answered + good
            assert set(witness.check_get(keys)) == {Status.OK}
    assert answered > RECORDS[where] // 10, answered
    accounts.check_sums(accounts.status(daemon)["counters"])
