# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever stands in an identity or a key, no file is named by it: all that is within the
limits works, what is beyond is refused when the session attaches, and nothing outside the store's
own folders is touched. (Bug reports O11-04, O11-05, O11-07.)

Method: names that are paths, controls, look-alikes and as long as they may be; the store's tree is
looked at as a whole, and pages are asked for after a restart.
"""
import os
import re

import pytest

import accounts
import content
import kvsidecar
from engine import Engine, fields
from kvsidecar import Coordinate, Part, Status

BYTES = 4096
LONGEST = 4096
NAMES = ["../x", "/etc", "a/../../b", ".", "..", "/", "-rf *", "a\nb", "\x1b[2J", "c:\\con",
         "%00%2f", "\u2025/x", "\uff0e\uff0e\uff0fx", "\u202egpj", "\U0001f600" * 60, "n" * 255,
         "n" * 256, "n" * LONGEST]
PLACES = ["model", "revision", "adapter", "tenant_salt", "draft_model", "key_scheme", "layout"]


def tree(daemon):
    return sorted(os.path.relpath(os.path.join(folder, name), daemon.folder)
                  for folder, _, files in os.walk(daemon.folder) for name in files)


def everything_in(place):
    return [fields(BYTES, **{place: name}) for name in NAMES]


@pytest.mark.parametrize("place", PLACES)
def test_what_a_name_says_is_in_no_path(start, place):
    """O11-04, O11-07: all are served, and are served again after a restart."""
    daemon = start()
    above = sorted(os.listdir(os.path.dirname(daemon.folder)))
    keys = content.keys(range(2))
    for number, namespace in enumerate(everything_in(place)):
        with Engine(daemon.socket, 4, BYTES, namespace=namespace, part=b"%d" % number) as engine:
            assert engine.check_put(keys, durable=True, timeout=20) == [Status.OK] * 2, number
    for path in tree(daemon):
        assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", piece)
                   for piece in path.split("/")), path
    assert sorted(os.listdir(os.path.dirname(daemon.folder))) == above
    accounts.restart_with_store_only(daemon)
    for number, namespace in enumerate(everything_in(place)):
        with Engine(daemon.socket, 4, BYTES, namespace=namespace, part=b"%d" % number) as engine:
            assert engine.check_get(keys, timeout=20) == [Status.OK] * 2, number


@pytest.mark.parametrize("length", [1, 2, 15, 16, 63, 64])
def test_keys_of_every_length_are_what_they_are(start, length):
    """O11-04: with the bytes that end a text, a line or a path."""
    daemon = start()
    keys = [(byte * length)[:length] for byte in (b"\0", b"/", b".", b"\n", b"\xff", b"a")]
    with Engine(daemon.socket, 16, BYTES) as engine:
        assert engine.check_put(keys, durable=True, timeout=20) == [Status.OK] * 6
        assert engine.check_get(keys) == [Status.OK] * 6
    accounts.restart_with_store_only(daemon)
    with Engine(daemon.socket, 16, BYTES) as engine:
        assert engine.check_get(keys, timeout=20) == [Status.OK] * 6
        assert engine.check_get([b"b" * length]) == [Status.MISS]


@pytest.mark.parametrize("key_bytes", [0, 65, 255, 4096, 1 << 20])
def test_keys_beyond_the_limit_are_refused_before_anything_is_sent(start, key_bytes):
    daemon = start()
    with Engine(daemon.socket, 2, BYTES) as engine:
        with pytest.raises(kvsidecar.Misuse, match="key"):
            engine.client.put(engine.space, [b"k" * key_bytes], engine.layout, [0])


@pytest.mark.parametrize("changed, field", [
    ({"model": ""}, "model"), ({"revision": ""}, "revision"), ({"pool": ""}, "pool"),
    ({"dtype": ""}, "dtype"), ({"layout": ""}, "layout"), ({"pool": "p" * 65}, "pool"),
    ({"model": "a\0b"}, "model"), ({"adapter": "a\0b"}, "adapter"),
    ({"model": "m" * (1 << 20)}, ""), ({"tenant_salt": "s" * (16 << 10)}, ""),
    ({"tokens_per_page": 0}, "tokens_per_page"), ({"tp_size": 0}, "tp_size"),
    ({"slice": 1}, "slice"), ({"slices": 0}, "slice"), ({"parts": []}, "parts"),
    ({"parts": [Part(Coordinate(), 0)]}, "parts"),
    ({"parts": [Part(Coordinate(), 1 << 62)]}, "parts"),
    ({"parts": [Part(Coordinate(), 8)] * 2}, "parts"),
    ({"parts": [Part(Coordinate(tp, 0, 0), 8) for tp in range(10_000)]}, ""),
], ids=lambda value: str(value)[:32])
def test_an_identity_that_cannot_be_is_refused_at_attach(start, changed, field):
    """O11-04, O11-05: not at each page, and others are served meanwhile."""
    daemon = start()
    with Engine(daemon.socket, 2, BYTES) as engine:
        with pytest.raises(kvsidecar.Misuse) as refusal:
            engine.client.attach(fields(BYTES, **changed))
        assert field in str(refusal.value) and str(refusal.value)
        assert engine.check_put([content.key(1)]) == [Status.OK]
    assert accounts.status(daemon)["namespaces"] == 1
