# SPDX-License-Identifier: Apache-2.0
"""Goal: a prepared lookup says what Client.lookup says, and holds nothing that nobody wants.

Method: the same questions by both, on a real daemon; answers that nobody waits for; a client that
is closed.
"""
import pytest

import kvsidecar
from kvsidecar import Place, Policy, Pool, PreparedLookup, Status
from scene import KEY_BYTES, Engine, random_keys
from waiting import eventually


def answered(found):
    eventually(lambda: found.finished, "the lookup is answered")
    return found


@pytest.mark.parametrize("pages", [1, 4, 300])
def test_it_says_what_a_lookup_says(client, pages):
    engine = Engine(client, pages)
    client.put(engine.namespace, engine.keys[:3], engine.layout, engine.from_blocks[:3]).result()
    asked = bytes(engine.keys) + bytes(random_keys(1, 77))
    for pool in (Pool(engine.namespace), Pool(engine.namespace, Policy.TRAILING_PAGES, 2)):
        prepared = PreparedLookup(client, [pool], timeout=10)
        for _ in range(2):
            found = answered(prepared.begin(asked, KEY_BYTES))
            told = client.lookup(asked, [pool], key_bytes=KEY_BYTES).result()
            assert found.status == told.status == Status.OK
            assert (found.longest, found.lease) == (told.longest, 0)
            assert list(found.places) == list(told.places)
            assert list(found.restorable) == list(told.restorable)
            assert found.submitted_ns <= found.finished_ns


def test_its_lease_holds_and_is_released(client):
    engine = Engine(client, 2)
    engine.put().result()
    found = answered(PreparedLookup(client, engine.namespace, lease=10, timeout=10).begin(
        bytes(engine.keys), KEY_BYTES))
    assert found.lease != 0 and found.places_bytes == bytes((Place.HOST,)) * 2
    assert engine.get(lease=found.lease).result().succeeded == 2
    assert client.release(found.lease).result().status == Status.OK


def test_answers_that_nobody_wants_use_nothing_up(client):
    engine = Engine(client, 1)
    prepared = PreparedLookup(client, engine.namespace, timeout=10)
    for _ in range(6000):  # more than a client has operations
        assert prepared.begin(bytes(engine.keys), KEY_BYTES).status == Status.OK


def test_failures_are_statuses(client):
    engine = Engine(client, 1)
    prepared = PreparedLookup(client, engine.namespace, timeout=10)
    refused = prepared.begin(b"", KEY_BYTES)
    assert refused.finished and refused.status == Status.INVALID and refused.text
    waiting = prepared.begin(bytes(engine.keys), KEY_BYTES)
    del engine
    client.close()
    assert waiting.finished
    with pytest.raises(kvsidecar.Misuse, match="closed"):
        prepared.begin(b"k" * KEY_BYTES, KEY_BYTES)
