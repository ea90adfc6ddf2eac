# SPDX-License-Identifier: Apache-2.0
"""Goal: a request with a wrong item does nothing at all; one whose item merely fails does the rest,
each with its own status; a clear leaves nothing of what it cleared and all of what it did not. (Bug
reports O11-11, O11-12.)

Method: batches of a hundred with the 57th wrong, made by hand; two pools of one model, pages leased
and being loaded while one of them is cleared, and a restart.
"""
import pytest

import accounts
import content
import flat
from engine import Engine, fields
from kvsidecar import Place, Status
from raw_engine import RawEngine
from raw_peer import DELETE, GET, LOOKUP, PUT, SKIPPED
from waiting import eventually

COUNT, WRONG = 100, 57


def deletion(namespace, keys, count=None, key_bytes=16):
    return flat.table({0: flat.u64(namespace), 1: flat.u8(key_bytes), 2: flat.keys(keys, count)})


def present(peer, keys):
    found = peer.call(LOOKUP, flat.lookup(peer.namespace, keys))
    assert found.status == Status.OK
    return [i for i, place in enumerate(found.payload[-len(keys):]) if place]


@pytest.mark.parametrize("type_", [PUT, GET])
@pytest.mark.parametrize("wrong", ["block", "layout", "claim"])
def test_a_batch_with_a_wrong_item_touches_nothing(start, type_, wrong):
    """O11-11."""
    daemon = start()
    with RawEngine(daemon.socket, blocks=COUNT) as peer:
        keys = content.keys(range(COUNT))
        if type_ == GET:
            assert set(peer.put(keys).payload) == {Status.OK}
        peer.memory[:] = b"\xc5" * len(peer.memory)
        for i in range(COUNT):
            peer.queue_claim(i, i)
        items = [(peer.layout, i, i) for i in range(COUNT)]
        items[WRONG] = {"block": (peer.layout, COUNT, WRONG), "layout": (1 << 40, WRONG, WRONG),
                        "claim": (peer.layout, WRONG, 1 << 20)}[wrong]
        answer = peer.call(type_, flat.transfer(peer.namespace, keys, items))
        assert answer.status in (Status.INVALID, Status.UNKNOWN_HANDLE, Status.STALE_HANDLE)
        assert b"%d" % WRONG in answer.payload, answer.payload
        assert peer.memory[:] == b"\xc5" * len(peer.memory)
        # Those that were looked at are given back; those behind are the client's as they were.
        assert {peer.claim_state(i) for i in range(WRONG)} == {SKIPPED}
        assert len(present(peer, keys)) == (COUNT if type_ == GET else 0)


def test_a_deletion_that_lies_about_its_keys_deletes_none(start):
    """O11-11."""
    daemon = start()
    with RawEngine(daemon.socket, blocks=COUNT) as peer:
        keys = content.keys(range(COUNT))
        assert set(peer.put(keys).payload) == {Status.OK}
        whole = b"".join(keys)
        for record in (deletion(peer.namespace, [whole[:-1]]),
                       deletion(peer.namespace, [whole[:16 * WRONG + 5]]),
                       deletion(peer.namespace, keys, count=len(whole) * 2),
                       deletion(peer.namespace, keys, key_bytes=0)):
            assert peer.call(DELETE, record).status == Status.INVALID
            assert len(present(peer, keys)) == COUNT


def test_an_item_that_fails_is_its_own_and_the_others_are_done(start):
    """O11-11."""
    daemon = start()
    with Engine(daemon.socket, COUNT) as engine:
        keys = content.keys(range(COUNT))
        others = keys[:WRONG] + keys[WRONG + 1:]
        assert set(engine.check_put(others, timeout=20)) == {Status.OK}
        assert engine.check_get(keys, timeout=20) == \
            [Status.MISS if i == WRONG else Status.OK for i in range(COUNT)]
        deleted = engine.client.delete(engine.space, keys).result()
        assert list(deleted.items) == \
            [Status.MISS if i == WRONG else Status.OK for i in range(COUNT)]
        assert set(engine.check_get(keys)) == {Status.MISS}


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_clear_leaves_nothing_of_its_pool_and_all_of_the_other(start, how):
    """O11-12: with pages leased and loads in flight; after a restart too."""
    daemon = start(copy={"threads": 1, "inline_bytes": 0})
    keys = content.keys(range(200))
    with Engine(daemon.socket, 200, namespace=fields(65536, pool="kv"), part=b"kv") as kv, \
            Engine(daemon.socket, 200, namespace=fields(65536, pool="swa"), part=b"swa") as swa:
        for engine in (kv, swa):
            assert set(engine.check_put(keys, durable=True, timeout=20)) == {Status.OK}
        lease = kv.lookup(keys[:10], lease=60).result().lease
        assert lease
        loads = [kv.get(keys[:100]), kv.get(keys[100:], first_block=100)]
        assert kv.client.clear(kv.space, timeout=20).result().ok
        for first, op in zip((0, 100), loads):
            result = op.result()
            assert set(result.items) <= {Status.OK, Status.MISS} or not result.ok
            assert kv.wrong(keys[first:first + 100], result, first) == []
        assert kv.lookup(keys).result().longest == 0
        assert set(kv.check_get(keys, lease=lease)) == {Status.MISS}
        assert set(swa.check_get(keys, timeout=20)) == {Status.OK}
        kv.client.release(lease).result()
        assert accounts.status(daemon)["leases"]["count"] == 0
    daemon.terminate() if how == "terminate" else daemon.kill()
    daemon.start()
    with Engine(daemon.socket, 200, namespace=fields(65536, pool="kv"), part=b"kv") as kv, \
            Engine(daemon.socket, 200, namespace=fields(65536, pool="swa"), part=b"swa") as swa:
        eventually(lambda: accounts.status(daemon)["scanned"], "the store is read", pid=daemon.pid)
        assert set(kv.lookup(keys).result().places) == {Place.MISS}
        assert set(kv.check_get(keys, timeout=20)) == {Status.MISS}
        assert set(swa.check_get(keys, timeout=20)) == {Status.OK}
        assert set(kv.check_put(keys, timeout=20)) == {Status.OK}  # and there is room again
        assert set(kv.check_get(keys, timeout=20)) == {Status.OK}
