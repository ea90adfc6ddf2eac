# SPDX-License-Identifier: Apache-2.0
"""Goal: a call with a wrong argument does nothing at all and says what is wrong; one item that is
absent costs that item. (Bug reports O11-01, O11-06.)

Method: lists of lengths that don't go together, nothing in place of keys, buffers and handles, in
the Python package and through the C functions themselves; the daemon's own counters say whether
anything was begun.
"""
import ctypes

import numpy
import pytest

import kvsidecar
from kvsidecar import Status
from kvsidecar import _structs
from scene import KEY_BYTES, PAGE_BYTES, Engine, fields, random_keys

REFUSED = (kvsidecar.Misuse, TypeError, ctypes.ArgumentError)


def begun(client):
    """Pages that the daemon was asked for so far."""
    counters = client.stat().result().json()["counters"]
    return [counters[name] for name in ("pages_put", "pages_get", "pages_looked_up", "deletes")]


@pytest.mark.parametrize("keys, blocks", [(4, 3), (3, 4), (1, 0), (0, 1), (64, 65), (65, 64)])
@pytest.mark.parametrize("way", ["put", "get"])
def test_lists_of_different_length_are_refused_whole(client, way, keys, blocks):
    engine = Engine(client, 65)
    before = begun(client)
    with pytest.raises(kvsidecar.Misuse):
        getattr(client, way)(engine.namespace, [b"k" * KEY_BYTES] * keys, engine.layout,
                             range(blocks))
    assert begun(client) == before


@pytest.mark.parametrize("call", [
    lambda c, e: c.put(e.namespace, [], e.layout, []),
    lambda c, e: c.get(e.namespace, [], e.layout, []),
    lambda c, e: c.lookup([], e.namespace),
    lambda c, e: c.delete(e.namespace, []),
], ids=["put", "get", "lookup", "delete"])
def test_a_call_without_items_is_told_so_and_asks_the_daemon_nothing(client, call):
    engine = Engine(client, 1)
    before = begun(client)
    with pytest.raises(kvsidecar.Misuse, match="key"):
        call(client, engine)
    assert begun(client) == before


def test_one_absent_key_in_the_middle_is_its_own_miss(client):
    engine = Engine(client, 9)
    assert engine.put().result().succeeded == 9
    engine.keys[4] = random_keys(1, 99)[0]
    engine.forget_loaded()
    got = engine.get().result()
    assert list(got.items) == [Status.OK] * 4 + [Status.MISS] + [Status.OK] * 4
    loaded = engine.bytes()[9:]
    assert not loaded[4].any()
    assert all((loaded[i] == engine.bytes()[i]).all() for i in range(9) if i != 4)
    deleted = client.delete(engine.namespace, engine.keys).result()
    assert list(deleted.items) == [Status.OK] * 4 + [Status.MISS] + [Status.OK] * 4


def test_more_keys_than_a_lookup_may_have_are_refused_with_the_limit(client):
    engine = Engine(client, 1)
    before = begun(client)
    refused = client.lookup(numpy.zeros((32769, KEY_BYTES), dtype=numpy.uint8), engine.namespace)
    assert refused.result().status == Status.INVALID and "32768" in refused.result().text
    assert begun(client) == before
    assert client.lookup(random_keys(32768, 5), engine.namespace).result().ok


@pytest.mark.parametrize("keys", [None, 7, "text", [None], [b"k" * 16, None], ["text"], [7], [b""],
                                  b"", object(), [b"k" * 16, b"k" * 15]],
                         ids=lambda keys: repr(keys)[:24])
@pytest.mark.parametrize("way", ["put", "get", "lookup", "delete"])
def test_what_is_no_key_is_never_taken_for_one(client, way, keys):
    engine = Engine(client, 1)
    before = begun(client)
    with pytest.raises(REFUSED):
        if way == "lookup":
            client.lookup(keys, engine.namespace)
        elif way == "delete":
            client.delete(engine.namespace, keys)
        else:
            getattr(client, way)(engine.namespace, keys, engine.layout, [0])
    assert begun(client) == before


@pytest.mark.parametrize("call", [
    lambda c: c.attach(fields(model=None)), lambda c: c.attach(fields(revision=None)),
    lambda c: c.attach(fields(model=b"bytes")), lambda c: c.attach(fields(model=7)),
    lambda c: c.attach(fields(adapter=7)), lambda c: c.attach(fields(tokens_per_page=None)),
    lambda c: c.attach(fields(tokens_per_page="16")), lambda c: c.attach(fields(parts=None)),
    lambda c: c.attach(fields(), group="a text of length"),
    lambda c: c.register_staged(None), lambda c: c.register_staged(7),
    lambda c: c.register_staged(b"read-only"), lambda c: c.create_memory(None),
    lambda c: c.why(None), lambda c: c.clear(None), lambda c: c.release(None),
])
def test_nothing_or_another_type_is_no_default(client, call):
    with pytest.raises(REFUSED):
        call(client)
    assert client.stat().result().ok


def c_calls(client, engine):
    """Each C function that takes pointers, with null where bytes must be."""
    found, c = client._core.library, client._core.c
    op = ctypes.c_uint64()
    no_keys = _structs.Keys(bytes=None, key_bytes=KEY_BYTES, count=1)
    key = (ctypes.c_uint8 * KEY_BYTES)()
    good_keys = _structs.Keys(bytes=ctypes.addressof(key), key_bytes=KEY_BYTES, count=1)
    items = _structs.sized(_structs.TransferArgs, ns=engine.namespace.id, keys=no_keys)
    for name in ("kvs_put", "kvs_get"):
        yield name, (c, ctypes.byref(items), ctypes.byref(op))
        yield name, (c, None, ctypes.byref(op))
        without = _structs.sized(_structs.TransferArgs, ns=engine.namespace.id, keys=good_keys)
        without.items.layout = engine.layout.id
        without.items.blocks = None
        yield name, (c, ctypes.byref(without), ctypes.byref(op))
    lookup = _structs.sized(_structs.LookupArgs, keys=no_keys)
    yield "kvs_lookup", (c, ctypes.byref(lookup), ctypes.byref(op))
    yield "kvs_lookup", (c, None, ctypes.byref(op))
    yield "kvs_delete", (c, engine.namespace.id, ctypes.byref(no_keys), 0, ctypes.byref(op))
    yield "kvs_delete", (c, engine.namespace.id, None, 0, ctypes.byref(op))
    yield "kvs_why", (c, None, None, KEY_BYTES, 0, ctypes.byref(op))
    yield "kvs_clear_id", (c, None, 0, ctypes.byref(op))
    yield "kvs_stat", (c, 0, 0, None)
    yield "kvs_attach", (c, None, ctypes.byref(op))
    yield "kvs_layout_register", (c, 1, None, 1, 0, ctypes.byref(op))
    yield "kvs_region_register_staged", (c, None, PAGE_BYTES, 0, ctypes.byref(op))
    yield "kvs_stat", (None, 0, 0, ctypes.byref(op))


def test_null_is_refused_by_every_c_function(client):
    engine = Engine(client, 1)
    before = begun(client)
    for name, arguments in c_calls(client, engine):
        status = getattr(client._core.library, name)(*arguments)
        text = client._core.library.kvs_last_error().decode()
        assert status == Status.INVALID and text, (name, status, text)
    assert begun(client) == before
