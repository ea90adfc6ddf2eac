# SPDX-License-Identifier: Apache-2.0
"""Goal: a model with several kinds of cache finds exactly the prefixes that all of them can
restore, and no kind's bytes or sizes are taken for another's.

Method: pools of one model on a real daemon, put and deleted page by page. Covers O4-01, O4-03,
O4-04, O4-06, O4-07, O4-08, O4-09, O4-11, O4-12.
"""
import numpy
import pytest

import kvsidecar
from kvsidecar import Coordinate, Part, Policy, Pool, Run, Status
from scene import fields, random_keys

ALL, LAST = Policy.ALL_PAGES, Policy.TRAILING_PAGES


class Kind:
    """One pool: its own page size, memory and layout; block i holds page i."""

    def __init__(self, client, name, page_bytes, pages=100, **changed):
        self.client, self.bytes, self.pages = client, page_bytes, pages
        self.memory = client.create_memory(2 * pages * page_bytes)
        self.layout = client.register_layout(
            2 * pages, [Run(self.memory, 0, page_bytes, page_bytes)])
        self.namespace = client.attach(fields(
            pool=name, parts=[Part(Coordinate(), page_bytes)], **changed))
        self.rows()[:pages] = numpy.random.default_rng(page_bytes).integers(
            0, 256, (pages, page_bytes), dtype=numpy.uint8)

    def rows(self):
        return self.memory.array("u1", (2 * self.pages, self.bytes))

    def put(self, keys, which):
        which = list(which)
        result = self.client.put(self.namespace, keys[which], self.layout, which).result()
        assert result.succeeded == len(which), result

    def loads(self, keys, which):
        """Whether all of these pages come back as they were."""
        which = numpy.array(list(which))
        to = which + self.pages
        result = self.client.get(self.namespace, keys[which], self.layout, to).result()
        return result.succeeded == len(which) and bool(
            (self.rows()[which] == self.rows()[to]).all())


@pytest.fixture
def keys():
    return random_keys(100, seed=4)


def longest(client, keys, *pools):
    return client.lookup(keys, list(pools)).result().longest


@pytest.mark.parametrize("missing", ["indexer", "draft"])
def test_a_pool_without_a_page_leaves_no_prefix(client, keys, missing):
    kv, other = Kind(client, "kv", 4096), Kind(client, missing, 512)
    kv.put(keys, range(100))
    assert longest(client, keys, kv.namespace) == 100
    assert longest(client, keys, kv.namespace, other.namespace) == 0
    other.put(keys, range(60))
    assert longest(client, keys, kv.namespace, other.namespace) == 60


def test_a_recurrent_state_restores_where_it_stands(client, keys):
    kv, mamba = Kind(client, "kv", 4096), Kind(client, "mamba", 65537)
    pools = kv.namespace, Pool(mamba.namespace, LAST, 1)
    kv.put(keys, range(100))
    assert longest(client, keys, *pools) == 0
    mamba.put(keys, [31, 63])
    assert longest(client, keys, *pools) == 64
    assert mamba.loads(keys, [31, 63])
    client.delete(mamba.namespace, keys[63:64]).wait()
    assert longest(client, keys, *pools) == 32
    client.delete(mamba.namespace, keys[31:32]).wait()
    assert longest(client, keys, *pools) == 0


def test_which_pool_is_the_limit_can_be_asked(client, keys):
    kv, mamba = Kind(client, "kv", 4096), Kind(client, "mamba", 8192)
    kv.put(keys, range(100))
    for kind, there in ((kv, True), (mamba, False)):
        told = client.why(bytes(keys[50]), kind.namespace.namespace_id).result()
        assert bool(told.ok and '"host"' in told.text) is there, told.text


@pytest.mark.parametrize("window", [1, 4, 7])
def test_a_window_is_needed_at_every_length_that_is_asked_for(client, keys, window):
    kv, swa = Kind(client, "kv", 4096), Kind(client, "swa", 1024)
    pools = kv.namespace, Pool(swa.namespace, LAST, window)
    kv.put(keys, range(100))
    swa.put(keys, range(100))
    for length in (100, 99, 50, window, 1):
        assert longest(client, keys[:length], *pools) == length
    client.delete(swa.namespace, keys[60:61]).wait()
    found = client.lookup(keys, list(pools)).result()
    missing = set(range(61, 61 + window))  # lengths whose window has the gap
    assert [i + 1 for i in range(100) if not found.restorable[i]] == sorted(missing)


def test_three_kinds_with_sizes_of_their_own_are_one_lookup(client, keys):
    kinds = [Kind(client, "kv", 4096), Kind(client, "mamba", 65537), Kind(client, "swa", 1)]
    pools = [kinds[0].namespace, Pool(kinds[1].namespace, LAST, 1),
             Pool(kinds[2].namespace, LAST, 2)]
    for kind, which in zip(kinds, (range(100), range(7, 100, 8), range(100))):
        kind.put(keys, which)
    assert longest(client, keys, *pools) == 96
    assert all(kind.loads(keys, [7, 95]) for kind in kinds)


def test_the_same_key_in_two_pools_is_two_pages(client, keys):
    kv, swa = Kind(client, "kv", 1 << 20, pages=4), Kind(client, "swa", 256 << 10, pages=4)
    for kind in (kv, swa):
        kind.put(keys, range(4))
    assert kv.loads(keys, range(4)) and swa.loads(keys, range(4))
    client.delete(swa.namespace, keys[:4]).wait()
    assert kv.loads(keys, range(4)) and not swa.loads(keys, range(4))


@pytest.mark.parametrize("page_bytes", [4096, 6144, 65537, 2])
@pytest.mark.parametrize("off", [-1, 1])
def test_a_page_of_another_size_is_refused_and_touches_nothing(client, keys, page_bytes, off):
    kind = Kind(client, "kv", page_bytes, pages=4)
    wrong = client.register_layout(4, [Run(kind.memory, 0, page_bytes + 1, page_bytes + off)])
    kind.put(keys, range(2))
    before = kind.rows().copy()
    for call in (client.put, client.get):
        result = call(kind.namespace, keys[2:4], wrong, [2, 3]).result()
        assert set(result.items) == {Status.INVALID}
        assert f" {page_bytes + off} bytes" in result.text and f"has {page_bytes};" in result.text
    assert (kind.rows() == before).all()
    assert kind.loads(keys, range(2))


def test_a_page_without_bytes_is_refused_with_the_reason(client):
    """What has no bytes isn't stored: the engine's side answers for it."""
    with pytest.raises(kvsidecar.Misuse, match="the bytes of a part"):
        client.attach(fields(parts=[Part(Coordinate(), 0)]))
    assert client.stat().result().status == Status.OK
